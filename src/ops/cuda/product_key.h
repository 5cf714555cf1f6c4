// Which products one call computes, and which calls share an algorithm. Needs no GPU.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/int8_panels.h"
#include "ops/arithmetic.h"
#include "ops/cuda/row_buckets.h"

namespace pagedinfer {

// Where the next row would be; nullptr if it would not begin a panel of weights in int8.
inline const void* end_of_weight(const Tensor& weight) {
  if (weight.layout == Layout::kRows) {
    return static_cast<char*>(weight.data) + weight.rows * weight.stride * size_of(weight.dtype);
  }
  if (weight.rows % kernels::kInt8Rows != 0) return nullptr;
  return static_cast<char*>(weight.data) + weight.rows / kernels::kInt8Rows * weight.stride;
}

// The number of leading products that can be computed as one: the rows of their weights follow each
// other in memory, and so do the columns of their outputs.
inline int64_t num_fusible(std::span<const Product> products) {
  size_t n = 1;
  for (; n < products.size(); ++n) {
    const Product &a = products[n - 1], &b = products[n];
    const auto end = [](const Tensor& t, int64_t elements) {
      return static_cast<char*>(t.data) + elements * size_of(t.dtype);
    };
    if (a.weight.dtype != b.weight.dtype || a.weight.stride != b.weight.stride ||
        end_of_weight(a.weight) != b.weight.data || a.out.dtype != b.out.dtype ||
        a.out.stride != b.out.stride || end(a.out, a.out.cols) != b.out.data) {
      break;
    }
  }
  return static_cast<int64_t>(n);
}

// The first `count` products as one. REQUIRES: count <= num_fusible(products).
inline Product fuse(std::span<const Product> products, int64_t count) {
  Product fused = products[0];
  for (int64_t i = 1; i < count; ++i) {
    fused.weight.rows += products[i].weight.rows;
    fused.out.cols += products[i].out.cols;
  }
  return fused;
}

// The number of rows for which the reference algorithm of a deterministic product is chosen.
inline constexpr int64_t kReferenceRows = 128;
// Products of more rows than this share the algorithm of this many.
inline constexpr int64_t kMaxTableRows = 8192;

// The largest power of two, up to 256, to which every row of x is aligned.
inline int alignment_of(const Tensor& x) {
  const auto all = reinterpret_cast<uintptr_t>(x.data) |
                   static_cast<uintptr_t>(x.stride * size_of(x.dtype)) | uintptr_t{256};
  return static_cast<int>(all & (~all + 1));
}

// The largest workspace from which cuBLAS profits, by its documentation.
inline constexpr int64_t kProductWorkspaceBytes = int64_t{32} << 20;

// Everything that the choice of an algorithm depends on, except the number of rows.
struct ProductKey {
  int64_t n = 0, k = 0;  // out is (rows, n), x is (rows, k)
  DType in = DType::kBF16, out = DType::kBF16;
  int64_t x_stride = 0, weight_stride = 0, out_stride = 0;
  int x_alignment = 0, weight_alignment = 0, out_alignment = 0;

  auto operator<=>(const ProductKey&) const = default;
};

// All that tells keys apart, as numbers.
constexpr std::array<int64_t, 10> words_of(const ProductKey& key) {
  return {key.n,
          key.k,
          static_cast<int64_t>(key.in),
          static_cast<int64_t>(key.out),
          key.x_stride,
          key.weight_stride,
          key.out_stride,
          key.x_alignment,
          key.weight_alignment,
          key.out_alignment};
}
// The key of which these are the words.
constexpr ProductKey key_of(const std::array<int64_t, 10>& words) {
  return {.n = words[0],
          .k = words[1],
          .in = static_cast<DType>(words[2]),
          .out = static_cast<DType>(words[3]),
          .x_stride = words[4],
          .weight_stride = words[5],
          .out_stride = words[6],
          .x_alignment = static_cast<int>(words[7]),
          .weight_alignment = static_cast<int>(words[8]),
          .out_alignment = static_cast<int>(words[9])};
}

inline ProductKey key_of(const Tensor& x, const Product& product) {
  return {.n = product.weight.rows,
          .k = x.cols,
          .in = x.dtype,
          .out = product.out.dtype,
          .x_stride = x.stride,
          .weight_stride = product.weight.stride,
          .out_stride = product.out.stride,
          .x_alignment = alignment_of(x),
          .weight_alignment = alignment_of(product.weight),
          .out_alignment = alignment_of(product.out)};
}

// Whether a sum over k elements may be split. If a part does not end with a whole tile, versions 12
// and 13 of cuBLAS can drop the elements after the last whole tile.
constexpr bool may_split(int64_t k) { return k % 64 == 0; }

// The numbers of rows with which the algorithm of a bucket must be checked.
inline std::vector<int64_t> rows_to_check(int64_t bucket) { return {min_rows_of(bucket), bucket}; }
// The same for an algorithm that serves every number of rows up to max_rows. Some of these numbers
// do not fill a tile.
inline std::vector<int64_t> all_rows_to_check(int64_t max_rows) {
  std::vector<int64_t> rows = {1, 15, kReferenceRows, 1000, 8192};
  std::erase_if(rows, [&](int64_t count) { return count >= max_rows; });
  rows.push_back(max_rows);
  return rows;
}

}  // namespace pagedinfer
