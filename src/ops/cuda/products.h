#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "ops/cuda/product_key.h"
#include "ops/cuda/product_library.h"
#include "ops/ops.h"

namespace pagedinfer {

struct ProductBench;
class ProductCache;

// Arithmetic::matmul on a GPU, by cuBLASLt. The library's heuristic proposes algorithms for each
// ProductKey and bucket of rows. prepare() times some of them, if it is given time. Buckets that
// are not timed, and products that were not announced, use the first proposal.
//
// With `deterministic` no sum is split, and each key has a reference algorithm, which serves all
// numbers of rows, so that the bits of a row do not depend on the other rows. prepare() gives a
// bucket the first of a few proposals that trials show to compute the reference's bits, or else the
// reference, and never looks at a clock.
class CudaProducts {
 public:
  explicit CudaProducts(bool deterministic);
  CudaProducts(const CudaProducts&) = delete;
  CudaProducts& operator=(const CudaProducts&) = delete;

  // No product that was not announced has more rows.
  void set_max_rows(int64_t rows) { max_rows_ = rows; }

  // Chooses the algorithms for these products and for all their numbers of rows. Waits for the
  // device. Without `deterministic` it uses the algorithms in the cache. For missing ones it times
  // proposals, for at most max_timing_ms of the device's time, and adds the fastest to the cache.
  void prepare(std::span<const InputProducts> inputs, const ProductBench& bench,
               ProductCache& cache, double max_timing_ms);
  const ProductLibrary& library() const { return library_; }

  // Queues the products. REQUIRES: `workspace` has kProductWorkspaceBytes; while the stream is
  // being captured, products of these shapes were queued before.
  void run(const Tensor& x, std::span<const Product> products, void* workspace,
           cudaStream_t stream);

  // What prepare() chose, with `deterministic`, and a hash of it that is the same in every process,
  // and for every batch size unless trials with more rows refute an algorithm.
  const std::optional<ProductChoices>& choices() const { return choices_; }
  uint64_t choices_hash() const { return choices_hash_; }

 private:
  // The algorithms for one key.
  struct Entry {
    ProductLibrary::Layouts layouts = {};
    std::optional<ProductAlgorithm> reference = {};
    int64_t reference_rows = 0;  // it is checked up to this many
    std::map<int64_t, ProductAlgorithm> of_bucket = {};
    std::map<int64_t, ProductAlgorithm> of_rows = {};  // where none serves the whole bucket
  };

  // Products of one key: their matrices of weights, and the largest number of rows.
  struct Announced {
    std::vector<const void*> weights = {};
    int64_t rows = 0;
  };

  Entry& entry_for(const ProductKey& key);
  const ProductAlgorithm& algorithm_for(const ProductKey& key, Entry& entry, int64_t rows,
                                        cudaStream_t stream);
  // The algorithms for deterministic products that are proposed for `proposed_rows` by a rule and
  // serve all of `rows`.
  std::vector<ProductAlgorithm> fixed_for(const ProductKey& key, const Entry& entry,
                                          int64_t proposed_rows, std::span<const int64_t> rows,
                                          AlgorithmRule rule) const;
  // The reference, checked for all numbers of rows up to this one.
  const ProductAlgorithm& reference_for(const ProductKey& key, Entry& entry, int64_t max_rows);
  const ProductAlgorithm& choose(const ProductKey& key, Entry& entry, int64_t rows);
  // The proposals that serve all numbers of rows of the bucket.
  std::vector<ProductAlgorithm> proposed_for(const ProductKey& key, const Entry& entry,
                                             int64_t bucket) const;
  void choose_fastest(const std::map<ProductKey, Announced>& announced, const ProductBench& bench,
                      ProductCache& cache, double max_timing_ms);
  void choose_deterministic(const ProductKey& key, const Announced& announced,
                            const ProductBench& bench);
  bool accepts(const Entry& entry, std::span<const int64_t> rows,
               const ProductAlgorithm& algorithm) const;

  ProductLibrary library_;
  const bool deterministic_;
  int64_t max_rows_ = 1;
  std::map<ProductKey, Entry> entries_;
  std::optional<ProductChoices> choices_ = {};
  uint64_t choices_hash_ = 0;
};

}  // namespace pagedinfer
