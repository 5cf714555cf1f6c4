#pragma once

#include <map>
#include <span>

#include "ops/cuda/cublas_lt.h"
#include "ops/cuda/product_key.h"

namespace pagedinfer {

// Arithmetic::matmul on a GPU, by cuBLASLt. The library's heuristic chooses the algorithm, once for
// each ProductKey and never by timing. With `deterministic`, one algorithm serves all numbers of
// rows and splits no sum, so that the bits of a row do not depend on the other rows.
class CudaProducts {
 public:
  explicit CudaProducts(bool deterministic);
  ~CudaProducts();
  CudaProducts(const CudaProducts&) = delete;
  CudaProducts& operator=(const CudaProducts&) = delete;

  // Queues the products. REQUIRES: `workspace` has kProductWorkspaceBytes.
  void run(const Tensor& x, std::span<const Product> products, void* workspace,
           cudaStream_t stream);

  size_t library_version() const { return lt_.version(); }
  int num_choices() const { return static_cast<int>(choices_.size()); }

 private:
  // cuBLAS is column-major: d (n x rows) = weight^T (n x k) x (k x rows).
  struct Choice {
    cublasLtMatrixLayout_t weight = nullptr, x = nullptr, d = nullptr;
    cublasLtMatmulAlgo_t algorithm = {};
    bool serves_all = false;  // all rows of the key; else only key.rows
  };

  Choice& choice_for(const ProductKey& key);
  void choose(const ProductKey& key, Choice& choice);
  void set_rows(const Choice& choice, int64_t rows);
  // Whether cuBLAS accepts the algorithm, with our workspace, for all rows_to_check().
  bool serves(const ProductKey& key, const Choice& choice, const cublasLtMatmulAlgo_t& algorithm);
  void multiply(const Tensor& x, const Product& product, void* workspace, cudaStream_t stream);

  const CublasLt lt_;
  const bool deterministic_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  std::map<ProductKey, Choice> choices_;
};

}  // namespace pagedinfer
