#include "ops/cuda/products.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "core/check.h"
#include "core/error.h"

namespace pagedinfer {
namespace {

constexpr int kMaxCandidates = 8;

cudaDataType_t library_type(DType dtype) {
  switch (dtype) {
    case DType::kF32: return CUDA_R_32F;
    case DType::kBF16: return CUDA_R_16BF;
    case DType::kF16: return CUDA_R_16F;
    case DType::kI32: break;
    case DType::kI8: break;
  }
  CHECK(false);
}

}  // namespace

CudaProducts::CudaProducts(bool deterministic) : deterministic_(deterministic) {
  lt_.check(lt_.create(&handle_), "to start");
  lt_.check(lt_.desc_create(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "to describe a product");
  const cublasOperation_t transposed = CUBLAS_OP_T;
  lt_.check(lt_.desc_set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
            "to describe a product");
}

CudaProducts::~CudaProducts() {
  for (auto& [key, choice] : choices_) {
    for (cublasLtMatrixLayout_t layout : {choice.weight, choice.x, choice.d}) {
      if (layout != nullptr) lt_.layout_destroy(layout);
    }
  }
  if (operation_ != nullptr) lt_.desc_destroy(operation_);
  if (handle_ != nullptr) lt_.destroy(handle_);
}

void CudaProducts::run(const Tensor& x, std::span<const Product> products, void* workspace,
                       cudaStream_t stream) {
  while (!products.empty()) {
    const int64_t count = num_fusible(products);
    multiply(x, fuse(products, count), workspace, stream);
    products = products.subspan(static_cast<size_t>(count));
  }
}

void CudaProducts::multiply(const Tensor& x, const Product& product, void* workspace,
                            cudaStream_t stream) {
  const Tensor &weight = product.weight, &out = product.out;
  CHECK(weight.cols == x.cols && out.rows == x.rows && out.cols == weight.rows);
  CHECK(weight.dtype == x.dtype && (out.dtype == x.dtype || out.dtype == DType::kF32));
  if (x.rows == 0) return;
  ProductKey key = key_of(x, product, deterministic_);
  const Choice* chosen = &choice_for(key);
  if (!chosen->serves_all && key.rows != x.rows) {
    key.rows = x.rows;
    chosen = &choice_for(key);
  }
  const Choice& choice = *chosen;
  set_rows(choice, x.rows);
  const float one = 1.0f, zero = 0.0f;
  lt_.check(lt_.matmul(handle_, operation_, &one, weight.data, choice.weight, x.data, choice.x,
                       &zero, out.data, choice.d, out.data, choice.d, &choice.algorithm, workspace,
                       kProductWorkspaceBytes, stream),
            "a product");
}

void CudaProducts::set_rows(const Choice& choice, int64_t rows) {
  const auto columns = static_cast<uint64_t>(rows);
  for (cublasLtMatrixLayout_t layout : {choice.x, choice.d}) {
    lt_.check(lt_.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_COLS, &columns, sizeof columns),
              "to describe a product");
  }
}

bool CudaProducts::serves(const ProductKey& key, const Choice& choice,
                          const cublasLtMatmulAlgo_t& algorithm) {
  for (const int64_t rows : rows_to_check(key, deterministic_)) {
    set_rows(choice, rows);
    cublasLtMatmulHeuristicResult_t found = {};
    if (lt_.check_algorithm(handle_, operation_, choice.weight, choice.x, choice.d, choice.d,
                            &algorithm, &found) != CUBLAS_STATUS_SUCCESS ||
        found.workspaceSize > static_cast<size_t>(kProductWorkspaceBytes)) {
      return false;
    }
  }
  return true;
}

CudaProducts::Choice& CudaProducts::choice_for(const ProductKey& key) {
  const auto found = choices_.find(key);
  if (found != choices_.end()) return found->second;
  Choice& choice = choices_[key];
  try {
    choose(key, choice);
  } catch (...) {
    for (cublasLtMatrixLayout_t layout : {choice.weight, choice.x, choice.d}) {
      if (layout != nullptr) lt_.layout_destroy(layout);
    }
    choices_.erase(key);
    throw;
  }
  return choice;
}

void CudaProducts::choose(const ProductKey& key, Choice& choice) {
  const auto check = [&](cublasStatus_t status) { lt_.check(status, "to choose an algorithm"); };
  const auto layout = [&](cublasLtMatrixLayout_t& made, DType dtype, int64_t length, int64_t count,
                          int64_t stride) {
    check(lt_.layout_create(&made, library_type(dtype), static_cast<uint64_t>(length),
                            static_cast<uint64_t>(count), stride));
  };
  layout(choice.weight, key.in, key.k, key.n, key.weight_stride);
  layout(choice.x, key.in, key.k, key.rows, key.x_stride);
  layout(choice.d, key.out, key.n, key.rows, key.out_stride);

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
  // If a sum is split, its parts are added in float32 and in order.
  const uint32_t reductions =
      deterministic_ ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(key.weight_alignment));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(key.x_alignment));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<uint32_t>(key.out_alignment));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(key.out_alignment));

  std::array<cublasLtMatmulHeuristicResult_t, kMaxCandidates> best = {};
  int found = 0;
  const cublasStatus_t status =
      lt_.get_heuristic(handle_, operation_, choice.weight, choice.x, choice.d, choice.d,
                        preference.handle, kMaxCandidates, best.data(), &found);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status);
  // The fastest comes first. The proposals are for key.rows only, so check the others.
  const auto candidates = std::span(best).first(static_cast<size_t>(found));
  const auto is_usable = [](const auto& candidate) {
    return candidate.state == CUBLAS_STATUS_SUCCESS;
  };
  for (const cublasLtMatmulHeuristicResult_t& candidate : candidates) {
    if (!is_usable(candidate) || !serves(key, choice, candidate.algo)) continue;
    choice.algorithm = candidate.algo;
    choice.serves_all = true;
    return;
  }
  const auto usable = std::ranges::find_if(candidates, is_usable);
  if (usable != candidates.end() && !deterministic_) {
    choice.algorithm = usable->algo;
    return;
  }
  throw Error(
      fmt::format("cuBLAS has no algorithm for a product of {} rows of {} {} by {} ({} proposed)",
                  key.rows, key.k, name_of(key.in), key.n, found));
}

}  // namespace pagedinfer
