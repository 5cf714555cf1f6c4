#pragma once

#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "kernels/types.h"
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
  // Memory of the device until the next call; nullptr: there is no room.
  std::function<char*(int64_t bytes)> memory = {};
};

// Fills the operands of products so that the second half of each sum takes off what the first half
// has added: a result is what the roundings leave of 0, and tells apart orders of additions that
// agree in all but the last bits. x has `period` different rows.
void fill_x(kernels::Type type, const kernels::Matrix& x, int64_t rows, int64_t k, int period,
            uint64_t seed, cudaStream_t stream);
void fill_weight(kernels::Type type, const kernels::Matrix& weight, int64_t n, int64_t k,
                 uint64_t seed, cudaStream_t stream);

// Finds out by trial whether each of the algorithms computes the bits of the reference in every
// row, once with all of its rows and twice with few. One that the library refuses does not. Waits
// for the device. `weight` is multiplied by random numbers where there is no room for
// fill_weight(): that notices less. Returns false if the library refuses the reference.
[[nodiscard]] bool compare_bits(const ProductBench& bench, const ProductKey& key,
                                const ProductLibrary::Layouts& layouts, const void* weight,
                                const ProductAlgorithm& reference,
                                std::map<ProvenAlgorithm, bool>& are_equal);

// Finds for each of several numbers of rows, `max_rows_of`, an algorithm with the reference's bits.
class AlgorithmProof {
 public:
  // Compares the bits of some algorithms with those of the reference, as compare_bits() does.
  using Compare = std::function<bool(std::map<ProvenAlgorithm, bool>& are_equal)>;
  // Which algorithm to try for the i-th number of rows; nullptr: none.
  using Proposal = std::function<const ProductAlgorithm*(size_t i)>;

  AlgorithmProof(std::vector<int64_t> max_rows_of, Compare compare);
  // Tries an algorithm for each number of rows that has none. Returns false if the library refuses
  // the reference.
  [[nodiscard]] bool try_each(const Proposal& proposal);
  int64_t num_missing() const;
  // REQUIRES: none is missing.
  const ProductAlgorithm& operator[](size_t i) const { return *found_[i]; }

 private:
  std::vector<int64_t> max_rows_of_;
  Compare compare_;
  std::vector<std::optional<ProductAlgorithm>> found_;
};

}  // namespace pagedinfer
