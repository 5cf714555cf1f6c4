#pragma once

#include <compare>
#include <functional>
#include <map>

#include "ops/cuda/product_library.h"

namespace pagedinfer {

// An algorithm and the number of rows that it is tried with.
struct ProvenAlgorithm {
  ProductAlgorithm algorithm = {};
  int64_t rows = 0;

  auto operator<=>(const ProvenAlgorithm&) const = default;
};

// What trials of algorithms run on.
struct ProductBench {
  const ProductLibrary& library;
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;  // of kProductWorkspaceBytes
  // Memory of the device until the next call.
  std::function<char*(int64_t bytes)> memory = {};
};

// Finds out by trial whether each of the algorithms computes the bits of the reference in every
// row: with `weight` and rows of random numbers, once with all of its rows and twice with few. One
// that the library refuses does not. Waits for the device. Throws Error if the library refuses the
// reference.
void compare_bits(const ProductBench& bench, const ProductKey& key,
                  const ProductLibrary::Layouts& layouts, const void* weight,
                  const ProductAlgorithm& reference, std::map<ProvenAlgorithm, bool>& are_equal);

}  // namespace pagedinfer
