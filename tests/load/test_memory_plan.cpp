#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "load/memory_plan.h"
#include "load/model_path.h"
#include "load/system_memory.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cuda/cuda_ops.h"
#include "tests/support/paths.h"
#include "tests/support/support.h"

using namespace pagedinfer;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// A root directory of its own, with the files that tell how much memory there is.
struct FakeRoot {
  FakeRoot() : path(fs::temp_directory_path() / ("pagedinfer-root-" + std::to_string(getpid()))) {
    fs::remove_all(path);
    write("proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n");
  }
  ~FakeRoot() { fs::remove_all(path); }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
  }
  fs::path path;
};

MemoryDemand demand() {
  return {.rules = kCpuInfo.memory,
          .available_bytes = 8 * kGiB,
          .weight_bytes = kGiB,
          .activation_bytes = kGiB / 2,
          .kv_bytes_per_token = 1024,
          .block_size = 16,
          .max_sequences = 4,
          .max_model_len = 100};
}

}  // namespace

TEST_CASE("available memory is the kernel's number without a control group") {
  FakeRoot root;
  CHECK(available_memory(root.path) == 8 * kGiB);
}

TEST_CASE("a control group's limit counts, its reclaimable page cache does not") {
  FakeRoot root;
  root.write("proc/self/cgroup", "0::/jobs/one\n");
  root.write("sys/fs/cgroup/jobs/one/memory.max", "max\n");
  root.write("sys/fs/cgroup/jobs/one/memory.current", "1\n");
  CHECK(available_memory(root.path) == 8 * kGiB);
  root.write("sys/fs/cgroup/jobs/memory.max", std::to_string(4 * kGiB));
  root.write("sys/fs/cgroup/jobs/memory.current", std::to_string(3 * kGiB));
  CHECK(available_memory(root.path) == 1 * kGiB);
  root.write("sys/fs/cgroup/jobs/memory.stat",
             "anon 5\ninactive_file " + std::to_string(kGiB) + "\n");
  CHECK(available_memory(root.path) == 2 * kGiB);
}

TEST_CASE("version 1 control groups count too") {
  FakeRoot root;
  root.write("proc/self/cgroup", "4:cpu,cpuacct:/\n3:memory:/docker/x\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(2 * kGiB));
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(kGiB));
  CHECK(available_memory(root.path) == kGiB);
}

TEST_CASE("limits of the process count too") {
  FakeRoot root;
  const ProcessLimits limits = {.addresses = 3 * kGiB, .data = 2 * kGiB};
  CHECK(available_memory(root.path, limits) == 8 * kGiB);  // no limit is stated
  const int64_t page = sysconf(_SC_PAGESIZE);
  root.write("proc/self/statm", fmt::format("{} 7 6 5 0 {} 0", kGiB / page, kGiB / 2 / page));
  CHECK(available_memory(root.path, {}) == 8 * kGiB);
  CHECK(available_memory(root.path, {.addresses = 3 * kGiB}) == 2 * kGiB);
  CHECK(available_memory(root.path, limits) == 3 * kGiB / 2);
  CHECK(available_memory(root.path, {.data = kGiB / 4}) == 0);
}

TEST_CASE("limits of the process leave room for the threads of a run") {
  FakeRoot root;
  root.write("proc/self/statm", "0 0 0 0 0 0 0");
  const auto left = [&](const ProcessLimits& limits, int num_threads) {
    return available_memory(root.path, limits, num_threads);
  };
  CHECK(left({}, 10) == 8 * kGiB);  // addresses cost nothing
  constexpr int64_t kMiB = 1 << 20;
  CHECK(left({.data = kGiB}, 1) < kGiB);
  const int64_t stack = left({.data = kGiB}, 1) - left({.data = kGiB}, 2);
  CHECK(stack > 0);
  CHECK(left({.addresses = kGiB}, 1) - left({.addresses = kGiB}, 2) == stack);
  // Of more addresses a few heaps get some too.
  CHECK(left({.addresses = 3 * kGiB}, 1) - left({.addresses = 3 * kGiB}, 4) ==
        3 * stack + 64 * kMiB);
  CHECK(left({.data = kGiB}, 1000000) == 0);
}

TEST_CASE("where the kernel promises no more than it has, its promises count") {
  FakeRoot root;
  root.write("proc/meminfo",
             "MemAvailable: 8388608 kB\nCommitLimit: 4194304 kB\nCommitted_AS: 3145728 kB\n");
  CHECK(available_memory(root.path) == 8 * kGiB);
  root.write("proc/sys/vm/overcommit_memory", "2\n");
  CHECK(available_memory(root.path) == kGiB);
}

TEST_CASE("where half of the memory is too little the default cache is a small one") {
  MemoryDemand d = demand();
  d.max_model_len = 100000;
  d.weight_bytes = 4 * kGiB;
  CHECK(plan_memory(d).num_positions() == 2048);
  d.max_model_len = 100;
  CHECK(plan_memory(d).num_positions() == 112);
  d.max_model_len = 100000;
  // Of 7.2 GiB, one for the cache: 1,024 of 2,048 positions.
  d.kv_bytes_per_token = 1 << 20;
  d.weight_bytes = static_cast<int64_t>(5.7 * kGiB);
  CHECK(plan_memory(d).num_positions() == doctest::Approx(1024).epsilon(0.05));
}

TEST_CASE("by default there are blocks for a full batch of the longest sequences") {
  const MemoryPlan plan = plan_memory(demand());
  CHECK(plan.num_blocks == 4 * 7);
  CHECK(plan.num_positions() == 4 * 7 * 16);
  CHECK(plan.kv_bytes == 4 * 7 * 16 * 1024);
}

TEST_CASE("by default the cache stays within half of the available memory") {
  MemoryDemand d = demand();
  d.max_sequences = 1 << 20;
  d.max_model_len = 1 << 20;
  const MemoryPlan plan = plan_memory(d);
  CHECK(plan.kv_bytes + plan.weight_bytes + plan.activation_bytes <= 4 * kGiB);
  CHECK(plan.kv_bytes + plan.weight_bytes + plan.activation_bytes > 4 * kGiB - 16 * 1024);
}

TEST_CASE("on a GPU the cache takes all that the run may use, less what others use") {
  CHECK(available_on_device(100 * kGiB, 100 * kGiB, 0.5) == 50 * kGiB);
  CHECK(available_on_device(100 * kGiB, 70 * kGiB, 0.5) == 20 * kGiB);
  CHECK(available_on_device(100 * kGiB, 10 * kGiB, 0.5) == 0);
  CHECK(available_on_device(100 * kGiB, 99 * kGiB, 1.0) == 99 * kGiB - kGiB / 2);
  CHECK(available_on_device(100 * kGiB, kGiB / 4, 1.0) == 0);
  MemoryDemand d = demand();
  d.rules = kCudaInfo.memory;
  d.max_sequences = 1 << 20;
  d.max_model_len = 1 << 20;
  const MemoryPlan plan = plan_memory(d);
  CHECK(plan.kv_bytes + plan.weight_bytes + plan.activation_bytes <= 8 * kGiB);
  CHECK(plan.kv_bytes + plan.weight_bytes + plan.activation_bytes > 8 * kGiB - 16 * 1024);
  d.weight_bytes = 8 * kGiB;
  CHECK_THROWS_WITH_AS(plan_memory(d), doctest::Contains("--gpu-memory-utilization"), Error);
}

TEST_CASE("a given number of blocks or bytes is what the run gets") {
  MemoryDemand d = demand();
  d.num_blocks = 3;
  CHECK(plan_memory(d).num_blocks == 3);
  d.num_blocks.reset();
  d.kv_memory = 5 * 16 * 1024 + 1;
  CHECK(plan_memory(d).num_blocks == 5);
}

TEST_CASE("a cache has no more positions than a slot can name") {
  MemoryDemand d = demand();
  d.available_bytes = int64_t{1} << 60;
  d.max_sequences = 1 << 20;
  d.max_model_len = 1 << 20;
  CHECK(plan_memory(d).num_positions() == (int64_t{1} << 31) - 16);
  d.num_blocks = int64_t{1} << 27;
  CHECK_THROWS_WITH_AS(plan_memory(d), doctest::Contains("at most 2147483647"), Error);
}

TEST_CASE("a plan that does not fit is refused") {
  MemoryDemand d = demand();
  d.num_blocks = 7 * kGiB / (16 * 1024);
  CHECK_THROWS_WITH_AS(plan_memory(d), doctest::Contains("--num-blocks"), Error);
  d.num_blocks.reset();
  d.kv_memory = 7 * kGiB;
  CHECK_THROWS_WITH_AS(plan_memory(d), doctest::Contains("--kv-memory"), Error);
  d.kv_memory = 16 * 1024 - 1;
  CHECK_THROWS_WITH_AS(plan_memory(d),
                       "--kv-memory: found 16383 bytes, expected at least 16384: one block of "
                       "--block-size 16 takes 16384",
                       Error);
  d.kv_bytes = [](int64_t positions) { return (positions + 255) / 256 * 256 * 1024; };
  CHECK_THROWS_WITH_AS(plan_memory(d),
                       "--kv-memory: found 16383 bytes, expected at least 262144: one block of "
                       "--block-size 16 takes 16384, and a cache is rounded up",
                       Error);
  d.kv_bytes = {};
  d.kv_memory.reset();
  d.weight_bytes = 7 * kGiB;
  CHECK_THROWS_WITH_AS(plan_memory(d), doctest::Contains("not enough memory"), Error);
  CHECK_THROWS_WITH_AS(plan_memory(d), doctest::Contains("--kv-memory"), Error);
}

TEST_CASE("a model that does not fit is refused with the settings that would make it fit") {
  MemoryDemand d = demand();
  const auto refusal = [&] {
    try {
      (void)plan_memory(d);
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  d.weight_bytes = 12 * kGiB;
  const std::string reason =
      "not enough memory: 8.00 GiB are available and nine tenths of it may be used; the weights "
      "take 12.00 GiB and the activations 0.50 GiB, which leaves no room for the KV cache";
  CHECK(refusal() == reason);
  int64_t int8 = 7 * kGiB, int4 = 4 * kGiB;
  d.smaller_weights = [&] {
    return std::vector<OtherWeights>{{"--quantize int8", int8, kGiB / 2},
                                     {"--quantize int4", int4, kGiB / 2}};
  };
  CHECK(refusal() ==
        reason + "; it would fit with --quantize int4, with which the weights take 4.00 GiB");
  int8 = 6 * kGiB;
  CHECK(refusal() ==
        reason +
            "; it would fit with --quantize int8, with which the weights take 6.00 GiB, "
            "or with --quantize int4, with which the weights take 4.00 GiB");
  int8 = int4 = 8 * kGiB;
  CHECK(refusal() == reason);
  d.kv_memory = 2 * kGiB;
  CHECK(refusal().ends_with("and the activations 0.50 GiB"));
  int4 = 5 * kGiB;
  CHECK(refusal().ends_with(
      "0.50 GiB; it would fit with --quantize int4, with which the weights take 5.00 GiB"));
  d.kv_memory = 3 * kGiB;
  CHECK(refusal().ends_with("and the activations 0.50 GiB"));
}

TEST_CASE("a bundled model is found by its short name from the program's path") {
  const std::string root = source_dir();
  const std::string found = find_model("story-llama", root + "/build/pagedinfer");
  CHECK(fs::equivalent(found, fs::path(root) / "datasets/story-llama"));
  CHECK(find_model(root, "/nowhere/pagedinfer") == root);
  CHECK_THROWS_WITH_AS(find_model("no-such-model", root + "/build/pagedinfer"),
                       doctest::Contains("looked at"), Error);
  CHECK_THROWS_WITH_AS(find_model("no/such/model", root + "/build/pagedinfer"),
                       doctest::Contains("no such folder"), Error);
}

TEST_CASE("a model has one name, however the path to it is spelt") {
  const TempDir dir;
  fs::create_directories(dir / "m/x");
  fs::create_symlink(dir / "m", dir / "link");
  const std::string here = fs::current_path().string();
  for (const std::string& path : {dir / "m", dir / "m/", dir / "m//", dir / "./m/.", dir / "m/x/..",
                                  dir / "link", dir / "link/", dir / "x/../m"}) {
    CAPTURE(path);
    CHECK(name_of_model(path) == "m");
  }
  fs::current_path(dir / "m");
  CHECK(name_of_model(".") == "m");
  CHECK(name_of_model("x/..") == "m");
  fs::current_path(here);
  CHECK(name_of_model("/") == "model");
  for (const auto& [folder, name] : {std::pair("models--org--some--name", "org/some--name"),
                                     std::pair("models--name", "name"), std::pair("own", "0123")}) {
    const std::string snapshot = dir / folder + std::string("/snapshots/0123");
    fs::create_directories(snapshot);
    CHECK(name_of_model(snapshot) == name);
    CHECK(name_of_model(snapshot + "/") == name);
  }
}
