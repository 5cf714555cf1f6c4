// Benchmarks of products, and of every algorithm that cuBLAS proposes for them.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "core/hash.h"
#include "gpu_bench.h"
#include "kernels/check_rows.h"
#include "kernels/int8_panels.h"
#include "kernels/int8_product.h"
#include "kernels/int8_rows.h"
#include "ops/cuda/product_cache.h"
#include "ops/cuda/product_proof.h"
#include "ops/cuda/products.h"

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
    for (const Size& size : sizes_of(s)) {
      measure(fastest_, "product", s, size, rows);
      measure(deterministic_, "product_deterministic", s, size, rows);
    }
  }
  // The product of the vocabulary.
  void head(const Shape& s, int64_t rows) {
    measure(fastest_, "product_head", s, head_of(s), rows);
    measure(deterministic_, "product_head_deterministic", s, head_of(s), rows);
  }

  // The products of a layer and of the vocabulary in int8, and what their input costs.
  void int8(const Shape& s, int64_t rows) {
    std::vector<Size> sizes = sizes_of(s);
    if (rows <= 512) sizes.push_back(head_of(s));
    for (const Size& size : sizes) {
      const double n = static_cast<double>(size.n), k = static_cast<double>(size.k),
                   m = static_cast<double>(rows);
      const std::string shape =
          fmt::format("{} {} rows={} n={} k={}", s.model, size.what, rows, size.n, size.k);
      const int64_t input_bytes = kernels::int8_input_bytes(rows, size.k);
      bench_.measure("product_int8", shape,
                     {.bytes = n * k + m * k + static_cast<double>(size_of(size.out)) * m * n,
                      .flops = 2 * n * k * m},
                     [&](int) {
                       kernels::launch_int8_product(
                           {.type = size.out == DType::kF32 ? Type::kF32 : Type::kBF16,
                            .input = bench_.buffer(input_bytes),
                            .weights = bench_.buffer(kernels::int8_panels(size.n) *
                                                     kernels::int8_weight_panel_bytes(size.k)),
                            .out = {bench_.buffer(rows * size.n * size_of(size.out)), size.n},
                            .num_rows = rows,
                            .cols = size.k,
                            .outputs = size.n,
                            .multiprocessors = bench_.multiprocessors()},
                           bench_.stream());
                     });
      bench_.measure("quantize", shape, {.bytes = 3 * m * k}, [&](int) {
        kernels::launch_quantize({.type = Type::kBF16,
                                  .x = {bench_.buffer(rows * size.k * 2), size.k},
                                  .num_rows = rows,
                                  .cols = size.k,
                                  .out = bench_.buffer(input_bytes)},
                                 bench_.stream());
      });
    }
  }

  // Prints a line for each algorithm that is proposed: its place among them, its configuration, its
  // time and a hash of what it computes of the same numbers.
  void probe(const Shape& s, int64_t rows) {
    if (!bench_.measures("probe")) return;
    bench_.count_measured();
    std::vector<Size> sizes = sizes_of(s);
    if (rows <= 512) sizes.push_back(head_of(s));
    for (const Size& size : sizes) {
      const Tensor x = matrix(rows, size.k, DType::kBF16);
      const Product product = {matrix(size.n, size.k, DType::kBF16),
                               matrix(rows, size.n, size.out)};
      const ProductKey key = key_of(x, product);
      const ProductLibrary::Layouts layouts = library_.describe(key);
      const auto proposed = library_.propose(key, layouts, rows, AlgorithmRule::kAny);
      for (size_t i = 0; i < proposed.size(); ++i) {
        const double us = bench_.time(
            [&](int) {
              library_.multiply(layouts,
                                {matrix(rows, size.k, DType::kBF16).data,
                                 matrix(size.n, size.k, DType::kBF16).data,
                                 matrix(rows, size.n, size.out).data, rows, workspace()},
                                proposed[i], bench_.stream());
            },
            3);
        const AlgorithmConfig c = library_.config_of(proposed[i]);
        fmt::print(
            R"({{"kind":"probe","shape":"{} {} rows={} n={} k={}","rank":{},"us":{:.2f},"id":{},)"
            R"("tile":{},"stages":{},"parts":{},"reduction":{},"swizzle":{},"custom":{},)"
            R"("inner_shape":{},"cluster_shape":{},"hash":"{:016x}"}})"
            "\n",
            s.model, size.what, rows, size.n, size.k, i, us, c.id, c.tile, c.stages, c.parts,
            c.reduction, c.swizzle, c.custom, c.inner_shape, c.cluster_shape,
            hash_of(layouts, x, product, proposed[i]));
        std::fflush(stdout);
      }
    }
  }

 private:
  struct Size {
    const char* what;
    int64_t n, k;
    DType out;
  };

  static std::vector<Size> sizes_of(const Shape& s) {
    const int64_t q_cols = int64_t{s.heads} * s.head_dim;
    const int64_t kv_cols = int64_t{s.kv_heads} * s.head_dim;
    return {{"qkv", q_cols + 2 * kv_cols, s.hidden, DType::kBF16},
            {"attention_out", s.hidden, q_cols, DType::kBF16},
            {"gate_up", 2 * int64_t{s.intermediate}, s.hidden, DType::kBF16},
            {"down", s.hidden, s.intermediate, DType::kBF16}};
  }
  static Size head_of(const Shape& s) { return {"head", s.vocab, s.hidden, DType::kF32}; }

  Tensor matrix(int64_t rows, int64_t cols, DType dtype) {
    return {bench_.buffer(rows * cols * size_of(dtype)), dtype, rows, cols, cols};
  }
  void* workspace() { return bench_.buffer(kProductWorkspaceBytes); }

  void multiply(CudaProducts& by, const Size& size, int64_t rows) {
    const Product product = {matrix(size.n, size.k, DType::kBF16), matrix(rows, size.n, size.out)};
    by.run(matrix(rows, size.k, DType::kBF16), {&product, 1}, workspace(), bench_.stream());
  }

  void measure(CudaProducts& by, const char* name, const Shape& s, const Size& size, int64_t rows) {
    if (!bench_.measures(name)) return;
    const Product product = {matrix(size.n, size.k, DType::kBF16), matrix(rows, size.n, size.out)};
    const InputProducts input = {matrix(rows, size.k, DType::kBF16), {product}};
    const ProductBench trials = {
        .library = by.library(),
        .stream = bench_.stream(),
        .workspace = workspace(),
        .memory = [&](int64_t bytes) { return bench_.buffer<char>(bytes); }};
    constexpr double kTimingMs = 50;
    by.prepare({&input, 1}, trials, cache_, kTimingMs);
    const double n = static_cast<double>(size.n), k = static_cast<double>(size.k),
                 m = static_cast<double>(rows);
    bench_.measure(name,
                   fmt::format("{} {} rows={} n={} k={}", s.model, size.what, rows, size.n, size.k),
                   {.bytes = 2 * (n * k + m * k) + static_cast<double>(size_of(size.out)) * m * n,
                    .flops = 2 * n * k * m},
                   [&](int) { multiply(by, size, rows); });
  }

  uint64_t hash_of(const ProductLibrary::Layouts& layouts, const Tensor& x, const Product& product,
                   const ProductAlgorithm& algorithm) {
    const int64_t rows = std::min<int64_t>(x.rows, 64);
    library_.multiply(layouts, {x.data, product.weight.data, product.out.data, x.rows, workspace()},
                      algorithm, bench_.stream());
    auto* const hashes = bench_.buffer<uint64_t>(rows * int64_t{sizeof(uint64_t)});
    kernels::launch_check_rows({.type = product.out.dtype == DType::kF32 ? Type::kF32 : Type::kBF16,
                                .x = {product.out.data, product.out.stride},
                                .num_rows = rows,
                                .cols = product.out.cols,
                                .hashes = hashes,
                                .period = 64,
                                .num_different = nullptr},
                               bench_.stream());
    std::vector<uint64_t> found(static_cast<size_t>(rows));
    check_cuda(cudaMemcpyAsync(found.data(), hashes, found.size() * sizeof(uint64_t),
                               cudaMemcpyDeviceToHost, bench_.stream()),
               "to read hashes");
    check_cuda(cudaStreamSynchronize(bench_.stream()), "to read hashes");
    uint64_t hash = 0;
    for (const uint64_t row : found) hash = hash_word(hash, row);
    return hash;
  }

  Bench& bench_;
  ProductLibrary library_;
  CudaProducts fastest_{false}, deterministic_{true};
  ProductCache cache_{"", ""};
};

}  // namespace pagedinfer
