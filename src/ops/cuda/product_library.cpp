#include "ops/cuda/product_library.h"

#include <bit>

#include "core/check.h"
#include "core/error.h"

namespace pagedinfer {
namespace {

constexpr int kMaxProposals = 8;

static_assert(sizeof(ProductAlgorithm) == sizeof(cublasLtMatmulAlgo_t));

cudaDataType_t library_type(DType dtype) {
  switch (dtype) {
    case DType::kF32: return CUDA_R_32F;
    case DType::kBF16: return CUDA_R_16BF;
    case DType::kF16: return CUDA_R_16F;
    case DType::kI32: break;
    case DType::kI8:
    case DType::kI4: break;
  }
  CHECK(false);
}

// Reads an attribute of an algorithm by a function of the library. Algorithms lack some of them.
template <class Get, class Name, class T>
cublasStatus_t read_attribute(Get get, const ProductAlgorithm& algorithm, Name name, T& value) {
  const auto packed = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  size_t written = 0;
  return get(&packed, name, &value, sizeof value, &written);
}

}  // namespace

ProductLibrary::ProductLibrary() {
  lt_.check(lt_.create(&handle_), "to start");
  lt_.check(lt_.desc_create(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "to describe a product");
  const cublasOperation_t transposed = CUBLAS_OP_T;
  lt_.check(lt_.desc_set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
            "to describe a product");
}

ProductLibrary::~ProductLibrary() {
  for (const cublasLtMatrixLayout_t layout : layouts_) lt_.layout_destroy(layout);
  if (operation_ != nullptr) lt_.desc_destroy(operation_);
  if (handle_ != nullptr) lt_.destroy(handle_);
}

// cuBLAS is column-major: out (n x rows) = weight^T (n x k) x (k x rows).
ProductLibrary::Layouts ProductLibrary::describe(const ProductKey& key) {
  const auto layout = [&](DType dtype, int64_t length, int64_t count, int64_t stride) {
    cublasLtMatrixLayout_t made = nullptr;
    lt_.check(lt_.layout_create(&made, library_type(dtype), static_cast<uint64_t>(length),
                                static_cast<uint64_t>(count), stride),
              "to describe a product");
    layouts_.push_back(made);
    return made;
  };
  return {.weight = layout(key.in, key.k, key.n, key.weight_stride),
          .x = layout(key.in, key.k, 1, key.x_stride),
          .out = layout(key.out, key.n, 1, key.out_stride)};
}

void ProductLibrary::set_rows(const Layouts& layouts, int64_t rows) const {
  const auto columns = static_cast<uint64_t>(rows);
  for (const cublasLtMatrixLayout_t layout : {layouts.x, layouts.out}) {
    lt_.check(lt_.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_COLS, &columns, sizeof columns),
              "to describe a product");
  }
}

AlgorithmConfig ProductLibrary::config_of(const ProductAlgorithm& algorithm) const {
  AlgorithmConfig config;
  const auto get = [&](cublasLtMatmulAlgoConfigAttributes_t name, auto& value) {
    if (read_attribute(lt_.algorithm_get, algorithm, name, value) != CUBLAS_STATUS_SUCCESS) {
      value = 0;
    }
  };
  get(CUBLASLT_ALGO_CONFIG_ID, config.id);
  get(CUBLASLT_ALGO_CONFIG_TILE_ID, config.tile);
  get(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, config.parts);
  get(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, config.reduction);
  get(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, config.swizzle);
  get(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, config.custom);
  get(CUBLASLT_ALGO_CONFIG_STAGES_ID, config.stages);
  get(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, config.inner_shape);
  get(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, config.cluster_shape);
  return config;
}

// What the library does not say counts as a split, by which a sum may lose its end: may_split().
bool ProductLibrary::is_unsplit(const ProductAlgorithm& algorithm) const {
  int32_t parts = 0;
  uint32_t reduction = 0;
  const auto has = [&](cublasLtMatmulAlgoConfigAttributes_t name, auto& value) {
    return read_attribute(lt_.algorithm_get, algorithm, name, value) == CUBLAS_STATUS_SUCCESS;
  };
  return has(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, parts) && parts <= 1 &&
         has(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, reduction) &&
         reduction == CUBLASLT_REDUCTION_SCHEME_NONE;
}

bool ProductLibrary::uses_tensor_cores(const ProductAlgorithm& algorithm) const {
  uint64_t flags = 0;
  return read_attribute(lt_.algorithm_capability, algorithm, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS,
                        flags) == CUBLAS_STATUS_SUCCESS &&
         (flags & CUBLASLT_NUMERICAL_IMPL_FLAGS_OP_TYPE_MASK) == CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA;
}

std::vector<ProductAlgorithm> ProductLibrary::propose(const ProductKey& key, const Layouts& layouts,
                                                      int64_t rows, AlgorithmRule rule) const {
  const auto check = [&](cublasStatus_t status) { lt_.check(status, "to choose an algorithm"); };
  set_rows(layouts, rows);
  struct Preference {
    const CublasLt& lt;
    cublasLtMatmulPreference_t handle = nullptr;
    ~Preference() {
      if (handle != nullptr) lt.preference_destroy(handle);
    }
  } preference{lt_};
  check(lt_.preference_create(&preference.handle));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
    check(lt_.preference_set(preference.handle, name, &value, sizeof value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kProductWorkspaceBytes));
  const bool may_split = rule == AlgorithmRule::kAny;
  const uint32_t reductions =
      may_split ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  if (rule == AlgorithmRule::kUnsplitOnTensor) {
    // Every flag of an algorithm must be allowed: those of its accumulator and its input too.
    prefer(CUBLASLT_MATMUL_PREF_IMPL_MASK, ~uint64_t{CUBLASLT_NUMERICAL_IMPL_FLAGS_OP_TYPE_MASK} |
                                               CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA);
  }
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(key.weight_alignment));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(key.x_alignment));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<uint32_t>(key.out_alignment));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(key.out_alignment));

  std::array<cublasLtMatmulHeuristicResult_t, kMaxProposals> best = {};
  int found = 0;
  const cublasStatus_t status =
      lt_.get_heuristic(handle_, operation_, layouts.weight, layouts.x, layouts.out, layouts.out,
                        preference.handle, kMaxProposals, best.data(), &found);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status);
  std::vector<ProductAlgorithm> proposals;
  for (int i = 0; i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = best[static_cast<size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    const auto algorithm = std::bit_cast<ProductAlgorithm>(result.algo);
    if (!may_split && !is_unsplit(algorithm)) continue;
    if (rule == AlgorithmRule::kUnsplitOnTensor && !uses_tensor_cores(algorithm)) continue;
    proposals.push_back(algorithm);
  }
  return proposals;
}

bool ProductLibrary::accepts(const Layouts& layouts, int64_t rows,
                             const ProductAlgorithm& algorithm) const {
  set_rows(layouts, rows);
  const auto packed = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  cublasLtMatmulHeuristicResult_t found = {};
  return lt_.check_algorithm(handle_, operation_, layouts.weight, layouts.x, layouts.out,
                             layouts.out, &packed, &found) == CUBLAS_STATUS_SUCCESS &&
         found.workspaceSize <= static_cast<size_t>(kProductWorkspaceBytes);
}

void ProductLibrary::multiply(const Layouts& layouts, const Operands& operands,
                              const ProductAlgorithm& algorithm, cudaStream_t stream) const {
  set_rows(layouts, operands.rows);
  const auto packed = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  const float one = 1.0f, zero = 0.0f;
  lt_.check(lt_.matmul(handle_, operation_, &one, operands.weight, layouts.weight, operands.x,
                       layouts.x, &zero, operands.out, layouts.out, operands.out, layouts.out,
                       &packed, operands.workspace, kProductWorkspaceBytes, stream),
            "a product");
}

bool ProductLibrary::try_multiply(const Layouts& layouts, const Operands& operands,
                                  const ProductAlgorithm& algorithm, cudaStream_t stream) const {
  try {
    multiply(layouts, operands, algorithm, stream);
    return true;
  } catch (const DeviceLost&) {
    throw;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace pagedinfer
