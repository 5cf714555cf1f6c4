#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ops/cuda/product_proof.h"

namespace pagedinfer {

// Times algorithms for products on the device.
class ProductTiming {
 public:
  // Stops when all trials together have taken max_ms on the device.
  ProductTiming(const ProductBench& bench, double max_ms);

  bool has_time() const { return spent_ms_ < max_ms_; }

  // The index of the fastest algorithm for so many rows. `weights` are matrices of this key of
  // several layers, so that none of them is found in the device's cache. nullopt: the library
  // refuses all of them. Waits for the device.
  std::optional<size_t> fastest(const ProductKey& key, const ProductLibrary::Layouts& layouts,
                                std::span<const void* const> weights, int64_t rows,
                                std::span<const ProductAlgorithm> algorithms);

 private:
  const ProductBench bench_;
  const double max_ms_;
  double spent_ms_ = 0;
};

}  // namespace pagedinfer
