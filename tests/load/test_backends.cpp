// The table of backends, and what --device auto makes of it.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "load/backends.h"
#include "ops/cpu/cpu_ops.h"

namespace pagedinfer {
namespace {

BackendInfo named(std::string_view device, std::string (*problem)(), bool (*is_present)()) {
  return {.name = device,
          .device = device,
          .problem = problem,
          .is_present = is_present,
          .resolve = nullptr,
          .make = nullptr};
}
bool yes() { return true; }
bool no() { return false; }

const BackendInfo kWorks = named(
    "A", [] { return std::string(); }, yes);
const BackendInfo kAbsent = named(
    "B", [] { return std::string("none"); }, no);
const BackendInfo kBroken = named(
    "C", [] { return std::string("old"); }, yes);
const BackendInfo kBrokenToo = named(
    "D", [] { return std::string("odd"); }, yes);

}  // namespace

TEST_CASE("backends: auto takes the first that works, and says why one that is there does not") {
  const auto choose = [](const std::vector<BackendRow>& rows) {
    const BackendChoice choice = choose_backend(Config::Device::kAuto, rows);
    return std::string(choice.row.info.device) + "|" + choice.note;
  };
  constexpr auto kAny = Config::Device::kCuda;
  CHECK(choose({{kAny, kWorks}, {kAny, kBroken}}) == "A|");
  CHECK(choose({{kAny, kAbsent}, {kAny, kWorks}}) == "A|");
  CHECK(choose({{kAny, kAbsent}, {kAny, kBroken}, {kAny, kBrokenToo}, {kAny, kWorks}}) ==
        "A|C is not used: old");
}

TEST_CASE("backends: the one that is named is taken, and the CPU is always there") {
  for (const BackendRow& row : backends()) {
    CHECK(&choose_backend(row.device).row == &row);
    CHECK(row.info.name != "");
    CHECK(row.info.usual_step_tokens > 0);
    CHECK(row.info.memory.usual_share <= row.info.memory.max_share);
  }
  CHECK(backends().back().device == Config::Device::kCpu);
  CHECK(backends().back().info.problem() == "");
}

TEST_CASE("backends: a model that is too large for one is refused") {
  BackendInfo info = backend_of(Config::Device::kCpu).info;
  info.device = "it";
  info.max_head_dim = 256;
  info.max_vocab = 1000;
  ModelSpec spec;
  spec.head_dim = 256;
  spec.vocab = 1000;
  check_sizes(info, spec);
  spec.vocab = 1001;
  CHECK_THROWS_WITH_AS(check_sizes(info, spec),
                       "config.json: a vocabulary of 1001 tokens: it computes at most 1000", Error);
  info.max_vocab = 0;
  check_sizes(info, spec);
  spec.head_dim = 257;
  CHECK_THROWS_WITH_AS(check_sizes(info, spec),
                       "config.json: heads of 257 channels: it computes at most 256", Error);
  spec.head_dim = 256;
  spec.experts.count = 9;
  check_sizes(info, spec);
  info.max_experts = 8;
  CHECK_THROWS_WITH_AS(check_sizes(info, spec), "config.json: 9 experts: it computes at most 8",
                       Error);
}

TEST_CASE("backends: the CPU computes float16 as float32, always deterministic, on its best set") {
  const BackendInfo& cpu = backend_of(Config::Device::kCpu).info;
  DeviceOptions options = cpu.resolve({.compute = DType::kF16, .num_threads = 3});
  CHECK(options.compute == DType::kF32);
  CHECK(options.num_threads == 3);
  CHECK(options.deterministic);
  CHECK(options.cpu_isa == available_isas().back());
  CHECK(cpu.make(options)->description().find("3 threads") != std::string::npos);
  options = cpu.resolve({.compute = DType::kBF16, .cpu_isa = CpuIsa::kPortable});
  CHECK(options.compute == DType::kBF16);
  CHECK(options.cpu_isa == CpuIsa::kPortable);
}

}  // namespace pagedinfer
