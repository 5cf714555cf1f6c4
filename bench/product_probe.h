// What cuBLAS proposes for products, and what each proposal computes of the same numbers.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "core/hash.h"
#include "gpu_bench.h"
#include "kernels/check_rows.h"
#include "ops/cuda/device_arena.h"
#include "ops/cuda/kernel_arguments.h"
#include "ops/cuda/product_cache.h"
#include "ops/cuda/product_proof.h"
#include "ops/cuda/products.h"
#include "product_sizes.h"

namespace pagedinfer {

class ProductProbe {
 public:
  explicit ProductProbe(Bench& bench) : bench_(bench) {}

  // Prints a line for each algorithm that is proposed: its place among them, its configuration, its
  // time, a hash of its result, and how many equal rows have other results.
  void probe(const Shape& s, int64_t rows) {
    if (!bench_.measures("probe")) return;
    bench_.count_measured();
    for (const ProductSize& size : products_of(s, rows)) {
      fill(size, rows);
      const ProductKey key = key_of(x(size, rows), product(size, rows));
      const ProductLibrary::Layouts layouts = library_.describe(key);
      const auto proposed = library_.propose(key, layouts, rows, AlgorithmRule::kAny);
      for (size_t i = 0; i < proposed.size(); ++i) {
        const double us = bench_.time(
            [&](int) {
              library_.multiply(layouts,
                                {bench_.input(rows * size.k * 2), bench_.input(size.n * size.k * 2),
                                 bench_.output(rows * size.n * size_of(size.out)), rows,
                                 bench_.output(kProductWorkspaceBytes)},
                                proposed[i], bench_.stream());
            },
            3);
        const auto multiply = [&](int64_t count) {
          library_.multiply(layouts,
                            {x_, weight_, out_, count, bench_.output(kProductWorkspaceBytes)},
                            proposed[i], bench_.stream());
        };
        multiply(rows);
        const std::vector<uint64_t> hashes = hashes_of(size, std::min(rows, kPeriod));
        const int different = num_different(size, rows);
        uint64_t hash = 0;
        for (const uint64_t row : hashes) hash = hash_word(hash, row);
        const AlgorithmConfig c = library_.config_of(proposed[i]);
        fmt::print(
            R"({{"kind":"probe","shape":"{}","rank":{},"us":{:.2f},"id":{},"tile":{},"stages":{},)"
            R"("parts":{},"reduction":{},"swizzle":{},"custom":{},"inner_shape":{},)"
            R"("cluster_shape":{},"hash":"{:016x}","uneven":{}}})"
            "\n",
            name_of(s, size, rows), i, us, c.id, c.tile, c.stages, c.parts, c.reduction, c.swizzle,
            c.custom, c.inner_shape, c.cluster_shape, hash, different);
        std::fflush(stdout);
      }
    }
  }

  // Chooses algorithms as a run with --deterministic does, and checks the choice for every bucket
  // up to max_rows: a row of a product has the bits that it has among kPeriod rows. Prints a line
  // for each product.
  void proof(const Shape& s, int64_t max_rows) {
    if (!bench_.measures("proof")) return;
    bench_.count_measured();
    std::vector<ProductSize> sizes = layer_products(s);
    sizes.push_back(head_product(s));
    for (const ProductSize& size : sizes) {
      const int64_t most = size.out == DType::kF32 ? std::min<int64_t>(max_rows, 512) : max_rows;
      fill(size, most);
      CudaProducts products(true);
      const InputProducts announced = {x(size, most), {product(size, most)}};
      ProductCache no_cache("", "");
      products.prepare({&announced, 1},
                       {.library = products.library(),
                        .stream = bench_.stream(),
                        .workspace = bench_.output(kProductWorkspaceBytes),
                        .memory = [&](int64_t bytes) { return bench_.output<char>(bytes); }},
                       no_cache, 0);
      const auto multiply = [&](int64_t rows) {
        const Product one = product(size, rows);
        products.run(x(size, rows), {&one, 1}, bench_.output(kProductWorkspaceBytes),
                     bench_.stream());
      };
      multiply(std::min(most, kPeriod));
      hashes_of(size, std::min(most, kPeriod));
      int64_t different = 0, checked = 0;
      for (const int64_t bucket : buckets_up_to(most)) {
        for (const int64_t rows : {min_rows_of(bucket), std::min(bucket, most)}) {
          multiply(rows);
          different += num_different(size, rows);
          ++checked;
        }
      }
      all_equal_ &= different == 0;
      fmt::print(
          R"({{"kind":"proof","shape":"{}","buckets":{},"fallen_back":{},"counts_of_rows":{},)"
          R"("different":{}}})"
          "\n",
          name_of(s, size), products.choices()->buckets, products.choices()->fallen_back, checked,
          different);
      std::fflush(stdout);
    }
  }
  // Of all proofs.
  bool all_equal() const { return all_equal_; }

 private:
  static constexpr int64_t kPeriod = 64;  // rows that differ; the others repeat them

  Tensor x(const ProductSize& size, int64_t rows) const {
    return {x_, DType::kBF16, rows, size.k, size.k};
  }
  Product product(const ProductSize& size, int64_t rows) const {
    return {{weight_, DType::kBF16, size.n, size.k, size.k},
            {out_, size.out, rows, size.n, size.n}};
  }

  // Fills x_ and weight_.
  void fill(const ProductSize& size, int64_t rows) {
    const auto aligned = [](int64_t bytes) { return align_up(bytes, DeviceArena::kStepAlignment); };
    const int64_t x_bytes = aligned(rows * size.k * 2), weight_bytes = aligned(size.n * size.k * 2),
                  out_bytes = aligned(rows * size.n * size_of(size.out)),
                  hash_bytes = aligned(kPeriod * int64_t{sizeof(uint64_t)});
    const int64_t bytes = x_bytes + weight_bytes + out_bytes + 2 * hash_bytes;
    if (bytes > memory_bytes_) {
      memory_ = DeviceBytes();  // before more is taken
      memory_ = take_device(bytes, "numbers of products");
      memory_bytes_ = bytes;
    }
    x_ = memory_.get();
    weight_ = x_ + x_bytes;
    out_ = weight_ + weight_bytes;
    hashes_ = reinterpret_cast<uint64_t*>(out_ + out_bytes);
    count_ = reinterpret_cast<int*>(out_ + out_bytes + hash_bytes);
    fill_x(Type::kBF16, {x_, size.k}, rows, size.k, kPeriod, 1, bench_.stream());
    fill_weight(Type::kBF16, {weight_, size.k}, size.n, size.k, 2, bench_.stream());
  }

  void check_rows(const ProductSize& size, int64_t rows, int* num_different) {
    kernels::launch_check_rows({.type = type_of(size.out),
                                .x = {out_, size.n},
                                .num_rows = rows,
                                .cols = size.n,
                                .hashes = hashes_,
                                .period = kPeriod,
                                .num_different = num_different},
                               bench_.stream());
    check_cuda(cudaGetLastError(), "to hash rows");
  }
  // Of the first rows of out_. They stay those that num_different() compares with.
  std::vector<uint64_t> hashes_of(const ProductSize& size, int64_t rows) {
    check_rows(size, rows, nullptr);
    return bench_.read(hashes_, rows);
  }
  int num_different(const ProductSize& size, int64_t rows) {
    check_cuda(cudaMemsetAsync(count_, 0, sizeof(int), bench_.stream()), "to hash rows");
    check_rows(size, rows, count_);
    return bench_.read(count_, 1)[0];
  }

  Bench& bench_;
  ProductLibrary library_;
  DeviceBytes memory_;
  int64_t memory_bytes_ = 0;
  // In memory_.
  char *x_ = nullptr, *weight_ = nullptr, *out_ = nullptr;
  uint64_t* hashes_ = nullptr;
  int* count_ = nullptr;
  bool all_equal_ = true;
};

}  // namespace pagedinfer
