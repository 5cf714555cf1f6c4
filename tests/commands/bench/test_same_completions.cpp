#include <doctest/doctest.h>

#include "commands/bench/bench_results.h"
#include "core/error.h"
#include "tests/support/support.h"

namespace pagedinfer {

TEST_CASE("the first line in which two files differ is found, be it a byte or the end") {
  const TempDir dir;
  const auto difference = [&](std::string_view a, std::string_view b) {
    write_file(dir / "a", a);
    write_file(dir / "b", b);
    const auto line = first_difference(dir / "a", dir / "b");
    CHECK(first_difference(dir / "b", dir / "a") == line);
    return line.value_or(0);
  };
  CHECK(difference("", "") == 0);
  CHECK(difference("one\ntwo\n", "one\ntwo\n") == 0);
  CHECK(difference("one\ntwo\n", "one\ntwx\n") == 2);
  CHECK(difference("one\ntwo\n", "ine\ntwo\n") == 1);
  CHECK(difference("one\ntwo\n", "one\n") == 2);
  CHECK(difference("one\ntwo\n", "one\ntwo") == 2);
  CHECK(difference("one\n", "") == 1);
  CHECK_THROWS_AS(first_difference(dir / "a", dir / "c"), Error);
}

}  // namespace pagedinfer
