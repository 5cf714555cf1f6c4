// The products of real models.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/tensor.h"
#include "gpu_bench.h"

namespace pagedinfer {

struct ProductSize {
  const char* what;
  int64_t n, k;
  DType out;
};

inline std::vector<ProductSize> layer_products(const Shape& s) {
  const int64_t q_cols = int64_t{s.heads} * s.head_dim;
  const int64_t kv_cols = int64_t{s.kv_heads} * s.head_dim;
  return {{"qkv", q_cols + 2 * kv_cols, s.hidden, DType::kBF16},
          {"attention_out", s.hidden, q_cols, DType::kBF16},
          {"gate_up", 2 * int64_t{s.intermediate}, s.hidden, DType::kBF16},
          {"down", s.hidden, s.intermediate, DType::kBF16}};
}
inline ProductSize head_product(const Shape& s) { return {"head", s.vocab, s.hidden, DType::kF32}; }

// Those of a layer and, where a step may draw for so many rows, that of the vocabulary.
inline std::vector<ProductSize> products_of(const Shape& s, int64_t rows) {
  std::vector<ProductSize> sizes = layer_products(s);
  if (rows <= 512) sizes.push_back(head_product(s));
  return sizes;
}

inline std::string name_of(const Shape& s, const ProductSize& size) {
  return fmt::format("{} {} n={} k={}", s.model, size.what, size.n, size.k);
}
inline std::string name_of(const Shape& s, const ProductSize& size, int64_t rows) {
  return fmt::format("{} {} rows={} n={} k={}", s.model, size.what, rows, size.n, size.k);
}

}  // namespace pagedinfer
