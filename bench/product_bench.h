// Benchmarks of products.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "gpu_bench.h"
#include "kernels/int8_panels.h"
#include "kernels/int8_product.h"
#include "kernels/int8_rows.h"
#include "ops/cuda/product_cache.h"
#include "ops/cuda/product_proof.h"
#include "ops/cuda/products.h"
#include "product_sizes.h"

namespace pagedinfer {

class ProductBenches {
 public:
  explicit ProductBenches(Bench& bench) : bench_(bench) {}

  // Products of square matrices; of 8,192 x 8,192 libraries quote their peaks.
  void peak(int64_t size) {
    const double n = static_cast<double>(size);
    bench_.measure_peak(2 * n * n * n, [&](int) {
      multiply(fastest_, {"", size, size, DType::kBF16}, size);
    });
  }

  // The products of a layer, by what a run chooses with and without --deterministic.
  void products(const Shape& s, int64_t rows) {
    for (const ProductSize& size : layer_products(s)) {
      measure(fastest_, "product", s, size, rows);
      measure(deterministic_, "product_deterministic", s, size, rows);
    }
  }
  // The product of the vocabulary.
  void head(const Shape& s, int64_t rows) {
    measure(fastest_, "product_head", s, head_product(s), rows);
    measure(deterministic_, "product_head_deterministic", s, head_product(s), rows);
  }

  // The products of a layer and of the vocabulary in int8, and what their input costs.
  void int8(const Shape& s, int64_t rows) {
    for (const ProductSize& size : products_of(s, rows)) {
      const double n = static_cast<double>(size.n), k = static_cast<double>(size.k),
                   m = static_cast<double>(rows);
      const std::string shape = name_of(s, size, rows);
      const int64_t input_bytes = kernels::int8_input_bytes(rows, size.k);
      bench_.measure("product_int8", shape,
                     {.bytes = n * k + m * k + static_cast<double>(size_of(size.out)) * m * n,
                      .flops = 2 * n * k * m},
                     [&](int) {
                       kernels::launch_int8_product(
                           {.type = size.out == DType::kF32 ? Type::kF32 : Type::kBF16,
                            .input = bench_.input(input_bytes),
                            .weights = bench_.input(kernels::int8_panels(size.n) *
                                                    kernels::int8_weight_panel_bytes(size.k)),
                            .out = {bench_.output(rows * size.n * size_of(size.out)), size.n},
                            .num_rows = rows,
                            .cols = size.k,
                            .outputs = size.n,
                            .multiprocessors = bench_.multiprocessors()},
                           bench_.stream());
                     });
      bench_.measure("quantize", shape, {.bytes = 3 * m * k}, [&](int) {
        kernels::launch_quantize({.type = Type::kBF16,
                                  .x = {bench_.input(rows * size.k * 2), size.k},
                                  .num_rows = rows,
                                  .cols = size.k,
                                  .out = bench_.output(input_bytes)},
                                 bench_.stream());
      });
    }
  }

 private:
  static Tensor tensor(void* data, int64_t rows, int64_t cols, DType dtype) {
    return {data, dtype, rows, cols, cols};
  }
  Tensor input(int64_t rows, int64_t cols) {
    return tensor(bench_.input(rows * cols * 2), rows, cols, DType::kBF16);
  }
  Product product(const ProductSize& size, int64_t rows) {
    return {input(size.n, size.k),
            tensor(bench_.output(rows * size.n * size_of(size.out)), rows, size.n, size.out)};
  }
  void* workspace() { return bench_.output(kProductWorkspaceBytes); }

  void multiply(CudaProducts& by, const ProductSize& size, int64_t rows) {
    const Product one = product(size, rows);
    by.run(input(rows, size.k), {&one, 1}, workspace(), bench_.stream());
  }

  void measure(CudaProducts& by, const char* name, const Shape& s, const ProductSize& size,
               int64_t rows) {
    if (!bench_.measures(name, name_of(s, size, rows))) return;
    const InputProducts products = {input(rows, size.k), {product(size, rows)}};
    const ProductBench trials = {
        .library = by.library(),
        .stream = bench_.stream(),
        .workspace = workspace(),
        .memory = [&](int64_t bytes) { return bench_.output<char>(bytes); }};
    constexpr double kTimingMs = 50;
    by.prepare({&products, 1}, trials, cache_, kTimingMs);
    const double n = static_cast<double>(size.n), k = static_cast<double>(size.k),
                 m = static_cast<double>(rows);
    bench_.measure(name, name_of(s, size, rows),
                   {.bytes = 2 * (n * k + m * k) + static_cast<double>(size_of(size.out)) * m * n,
                    .flops = 2 * n * k * m},
                   [&](int) { multiply(by, size, rows); });
  }

  Bench& bench_;
  CudaProducts fastest_{false}, deterministic_{true};
  ProductCache cache_{"", ""};
};

}  // namespace pagedinfer
