// Copies of cache positions, against the layout one position after the other.
#include <doctest/doctest.h>

#include <cstring>

#include "ops/cpu/kv_layout.h"
#include "ops/cpu/kv_positions.h"
#include "tests/support/ops_support.h"

namespace pagedinfer {
namespace {

// The bytes of a position's key, those of its value, and its scales.
std::string bytes_of(const KvLayer& cache, int head, int64_t position) {
  const int64_t unit_bytes = key_unit_bytes(cache.k.dtype);
  const int64_t num_units = cache.k.cols * size_of(cache.k.dtype) / unit_bytes;
  const int64_t row = kv_row(position, head, cache.kv_heads);
  std::string bytes;
  const auto append = [&](const Tensor& x, int64_t first, int64_t count) {
    bytes.append(static_cast<const char*>(x.data) + first, static_cast<size_t>(count));
  };
  for (int64_t i = 0; i < num_units; ++i) {
    append(cache.k, unit_bytes * key_unit(row, i, num_units), unit_bytes);
  }
  append(cache.v, unit_bytes * row * num_units, unit_bytes * num_units);
  for (const Tensor& scales : {cache.k_scale, cache.v_scale}) {
    if (!scales.empty()) append(scales, 4 * row, 4);
  }
  return bytes;
}

}  // namespace

TEST_CASE("copied positions hold the keys and values of their sources, and no others change") {
  Random random{17};
  constexpr int kPositions = 700;
  for (int round = 0; round < 60; ++round) {
    const int kv_heads = random.between(1, 3), head_dim = random.between(1, 40);
    constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kI8};
    const DType dtype = kTypes[random.below(4)];
    const auto ops = make_cpu_ops({.isa = available_isas().back()});
    const KvLayer cache = ops->memory().allocate_kv(dtype, kv_heads, head_dim, kPositions);
    for (const Tensor& x : {cache.k, cache.v, cache.k_scale, cache.v_scale}) {
      auto* const dwords = static_cast<uint32_t*>(x.data);
      for (int64_t i = 0; i < x.bytes() / 4; ++i) dwords[i] = static_cast<uint32_t>(random.bits());
    }
    const int count = random.between(1, 300);
    int source = random.below(kPositions / 2 - count + 1);
    int destination = kPositions / 2 + random.below(kPositions / 2 - count + 1);
    if (random.below(3) == 0) source = source / 16 * 16;
    if (random.below(3) == 0) destination = destination / 16 * 16;
    if (destination < kPositions / 2) destination += 16;
    if (random.below(2)) std::swap(source, destination);
    CAPTURE(source);
    CAPTURE(destination);
    CAPTURE(count);
    std::vector<std::string> before;
    for (int head = 0; head < kv_heads; ++head) {
      for (int p = 0; p < kPositions; ++p) before.push_back(bytes_of(cache, head, p));
    }
    const std::vector<KvCopy> copies = {{source, destination, count}};
    BatchView view;
    view.copies = copies;
    ops->steps().copy_kv(view, {&cache, 1});
    for (int head = 0; head < kv_heads; ++head) {
      for (int p = 0; p < kPositions; ++p) {
        const bool is_copy = p >= destination && p < destination + count;
        const int from = is_copy ? p - destination + source : p;
        REQUIRE(bytes_of(cache, head, p) == before[head * kPositions + from]);
      }
    }
  }
}

}  // namespace pagedinfer
