#include <doctest/doctest.h>

#include <thread>

#include "core/cpu_list.h"
#include "core/error.h"

namespace pagedinfer {

TEST_CASE("a list of processors is read as it is written") {
  for (const char* const text : {"0", "3,1", "0-3", "0,2-5,9", "7,0-2", "1023"}) {
    const std::optional<CpuList> list = read_cpu_list(text);
    REQUIRE_MESSAGE(list, text);
    CHECK(text_of(*list) == text);
  }
  CHECK(read_cpu_list("4,5-6,2")->cpus == std::vector{4, 5, 6, 2});
  for (const char* const text : {"", ",", "0,", "a", "-1", "1-", "3-1", "0,0", "1-3,2", "1024",
                                 "0-4000000000", "0 1", "0-1-2", "+1", "0x1"}) {
    CHECK_MESSAGE(!read_cpu_list(text), text);
  }
}

TEST_CASE("a confined thread and those that it starts run nowhere else") {
  const CpuList all = allowed_cpus(), last = {{all.cpus.back()}};
  std::thread([&] {
    confine_to(last);
    CHECK(allowed_cpus() == last);
    std::thread([&] { CHECK(allowed_cpus() == last); }).join();
  }).join();
  CHECK(allowed_cpus() == all);
  CHECK_THROWS_WITH_AS(confine_to({{all.cpus[0], 1023}}),
                       doctest::Contains("there is no processor 1023"), Error);
  CHECK(allowed_cpus() == all);
}

}  // namespace pagedinfer
