#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ops/cuda/cublas_lt.h"
#include "ops/cuda/product_key.h"

namespace pagedinfer {

// An algorithm for products, as cuBLAS packs it. The same library computes the same with the same
// words, in another process too.
using ProductAlgorithm = std::array<uint64_t, 8>;

// What cuBLAS says of an algorithm, in its own numbers; 0 where it says nothing.
struct AlgorithmConfig {
  int32_t id = 0, parts = 0;  // parts of a sum
  uint32_t tile = 0, stages = 0, reduction = 0, swizzle = 0, custom = 0;
  uint16_t inner_shape = 0, cluster_shape = 0;
};

// Which algorithms are wanted.
enum class AlgorithmRule : uint8_t {
  kAny,              // sums may be split; the parts are added in float32 and in order
  kUnsplit,          // no sum is split, and the library says so
  kUnsplitOnTensor,  // and the products are on tensor cores
};

// cuBLASLt's products out = x * weight^T, one algorithm and shape at a time. Chooses nothing.
class ProductLibrary {
 public:
  // Descriptions of the matrices of one ProductKey.
  struct Layouts {
    cublasLtMatrixLayout_t weight = nullptr, x = nullptr, out = nullptr;
  };
  // The addresses of one product; x and out have `rows` rows.
  struct Operands {
    const void *x = nullptr, *weight = nullptr;
    void* out = nullptr;
    int64_t rows = 0;
    void* workspace = nullptr;  // of kProductWorkspaceBytes
  };

  ProductLibrary();
  ~ProductLibrary();
  ProductLibrary(const ProductLibrary&) = delete;
  ProductLibrary& operator=(const ProductLibrary&) = delete;

  size_t version() const { return lt_.version(); }

  // The layouts live as long as the library.
  Layouts describe(const ProductKey& key);

  // The algorithms that the library proposes for `rows` rows, the fastest by its estimate first.
  // REQUIRES: no stream of this thread is being captured.
  std::vector<ProductAlgorithm> propose(const ProductKey& key, const Layouts& layouts, int64_t rows,
                                        AlgorithmRule rule) const;
  // Whether the algorithm computes products of `rows` rows within the workspace.
  bool accepts(const Layouts& layouts, int64_t rows, const ProductAlgorithm& algorithm) const;

  AlgorithmConfig config_of(const ProductAlgorithm& algorithm) const;

  // Queues a product.
  void multiply(const Layouts& layouts, const Operands& operands, const ProductAlgorithm& algorithm,
                cudaStream_t stream) const;
  // The same; false if it fails with this algorithm, which accepts() does not rule out. Throws
  // DeviceLost.
  [[nodiscard]] bool try_multiply(const Layouts& layouts, const Operands& operands,
                                  const ProductAlgorithm& algorithm, cudaStream_t stream) const;

 private:
  void set_rows(const Layouts& layouts, int64_t rows) const;
  bool uses_tensor_cores(const ProductAlgorithm& algorithm) const;
  bool is_unsplit(const ProductAlgorithm& algorithm) const;

  const CublasLt lt_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  std::vector<cublasLtMatrixLayout_t> layouts_;
};

}  // namespace pagedinfer
