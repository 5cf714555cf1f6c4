#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/host_memory.h"
#include "ops/cpu/kv_layout.h"
#include "ops/cpu/prefaulter.h"

namespace pagedinfer {
namespace {

constexpr int64_t kPage = 4096;

int64_t num_present(const void* memory, int64_t bytes) {
  std::vector<unsigned char> present(static_cast<size_t>((bytes + kPage - 1) / kPage));
  REQUIRE(mincore(const_cast<void*>(memory), static_cast<size_t>(bytes), present.data()) == 0);
  return std::count_if(present.begin(), present.end(), [](unsigned char p) { return p & 1; });
}

bool can_prefault() {
  constexpr int kPopulateWrite = 23;
  const HostMemory page(kPage, "a page");
  if (madvise(page.data(), kPage, kPopulateWrite) == 0) return true;
  MESSAGE("SKIPPED: this system cannot make pages present before they are touched");
  return false;
}

// Whether the system was asked for large pages for the memory around an address.
bool prefers_large_pages(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto at = reinterpret_cast<uintptr_t>(address);
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) here = begin <= at && at < end;
    if (here && line.starts_with("VmFlags:")) return line.find(" hg") != std::string::npos;
  }
  return false;
}

TEST_CASE("what a step computes lies in large pages") {
  const HostMemory known = HostMemory::of_large_pages(4 << 20, "a test");
  if (!prefers_large_pages(known.data())) {
    MESSAGE("SKIPPED: this system has no large pages");
    return;
  }
  const auto ops = make_cpu_ops({});
  ops->memory().reserve_steps({.tokens = 1, .widest_input = 64, .context = 1}, 16 << 20);
  CHECK(prefers_large_pages(ops->steps().scratch(DType::kF32, 1024, 1024).data));
  // More than was reserved.
  CHECK(prefers_large_pages(ops->steps().scratch(DType::kF32, 8192, 1024).data));
}

TEST_CASE("each head's keys and values of each position have a place of their own") {
  for (const int heads : {1, 3, 8}) {
    std::set<int64_t> rows;
    const int64_t positions = 3 * kSpanPositions;
    for (int64_t position = 0; position < positions; ++position) {
      for (int head = 0; head < heads; ++head) rows.insert(kv_row(position, head, heads));
    }
    CHECK(std::ssize(rows) == positions * heads);
    CHECK(*rows.begin() == 0);
    CHECK(*rows.rbegin() == positions * heads - 1);
  }
}

TEST_CASE("the first positions of all heads of a cache are neighbours") {
  const int heads = 8;
  for (int head = 0; head < heads; ++head) {
    for (const int64_t position : {0, 63, kSpanPositions - 1}) {
      CHECK(kv_row(position, head, heads) < int64_t{heads} * kSpanPositions);
    }
  }
}

TEST_CASE("memory that will be written is present when the prefaulter has finished") {
  if (!can_prefault()) return;
  const HostMemory memory(64 << 20, "a test");
  CHECK(num_present(memory.data(), memory.size()) == 0);
  Prefaulter prefaulter;
  prefaulter.will_write(memory.data() + 100, (32 << 20) - 100);
  prefaulter.finish();
  CHECK(num_present(memory.data(), memory.size()) == (32 << 20) / kPage);
}

TEST_CASE("memory keeps what is written to it while it is faulted in") {
  const HostMemory memory(64 << 20, "a test");
  Prefaulter prefaulter;
  prefaulter.will_write(memory.data(), memory.size());
  std::memset(memory.data(), 7, static_cast<size_t>(memory.size()));
  prefaulter.finish();
  CHECK(std::count(memory.data(), memory.data() + memory.size(), 7) == memory.size());
}

TEST_CASE("a prefaulter that is destroyed with work left ends") {
  const HostMemory memory(int64_t{256} << 20, "a test");
  auto prefaulter = std::make_unique<Prefaulter>();
  prefaulter->will_write(memory.data(), memory.size());
  prefaulter->will_read(memory.data(), memory.size());
  prefaulter.reset();
  CHECK(memory.data()[memory.size() - 1] == 0);  // it is still there
}

TEST_CASE("the part of a cache that the largest step fills is faulted in ahead") {
  if (!can_prefault()) return;
  const auto ops = make_cpu_ops({.num_threads = 1});
  const int heads = 8, dim = 64, step_tokens = 512;
  ops->memory().reserve_steps({.tokens = step_tokens}, 0);
  const KvLayer layer = ops->memory().allocate_kv(DType::kBF16, heads, dim, 4096);
  const int64_t filled = int64_t{step_tokens} * heads * dim * 2;
  const auto all_present = [&] {
    return num_present(layer.k.data, filled) == filled / kPage &&
           num_present(layer.v.data, filled) == filled / kPage;
  };
  const auto start = std::chrono::steady_clock::now();
  while (!all_present() && std::chrono::steady_clock::now() - start < std::chrono::seconds(60)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(all_present());
  CHECK(num_present(layer.k.data, layer.k.bytes()) < layer.k.bytes() / kPage);
}

TEST_CASE("if a step may hold the longest prompt, little of the cache is faulted in ahead") {
  if (!can_prefault()) return;
  auto ops = make_cpu_ops({.num_threads = 1});
  const int64_t positions = 131072, used = 2048 + kSpanPositions;
  ops->memory().reserve_steps({.tokens = positions}, 0);
  const KvLayer layer = ops->memory().allocate_kv(DType::kBF16, 2, 64, positions);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  constexpr int64_t kLargePage = (2 << 20) / kPage;  // comes as a whole
  CHECK(num_present(layer.k.data, layer.k.bytes()) <=
        kLargePage + layer.k.bytes() / kPage * used / positions);
}

}  // namespace
}  // namespace pagedinfer
