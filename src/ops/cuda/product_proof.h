#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ops/cuda/product_library.h"

namespace pagedinfer {

// An algorithm and the largest number of rows that it is to serve.
struct ProvenAlgorithm {
  ProductAlgorithm algorithm = {};
  int64_t rows = 0;
};

// What trials of algorithms run on.
struct ProductBench {
  const ProductLibrary& library;
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;  // of kProductWorkspaceBytes
  // Memory of the device until the next call.
  std::function<char*(int64_t bytes)> memory = {};
};

// Whether each of the algorithms computes the bits of the reference in every row, by trial: with
// `weight` and rows of random numbers, three times. Waits for the device. REQUIRES: each algorithm
// is accepted for all numbers of rows up to its own. max_rows bounds the rows of a trial.
std::vector<bool> equal_bits(const ProductBench& bench, const ProductKey& key,
                             const ProductLibrary::Layouts& layouts, const void* weight,
                             int64_t max_rows, const ProductAlgorithm& reference,
                             std::span<const ProvenAlgorithm> algorithms);

}  // namespace pagedinfer
