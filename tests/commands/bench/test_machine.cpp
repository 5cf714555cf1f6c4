#include <doctest/doctest.h>

#include <sstream>

#include "commands/bench/bench_results.h"

namespace pagedinfer {

TEST_CASE("the processor is that of the first core") {
  std::istringstream from(
      "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\n"
      "model name\t: AMD EPYC 9B45: 128 cores\nflags\t\t:\n\nprocessor\t: 1\nmodel\t\t: 3\n");
  const Processor processor = read_processor(from);
  CHECK(processor.name == "AMD EPYC 9B45: 128 cores");
  CHECK(processor.family == "26");
  CHECK(processor.model == "2");
  std::istringstream nothing("");
  CHECK(read_processor(nothing).name == "");
}

}  // namespace pagedinfer
