// A shared library in place of cuBLASLt: d = op(a) b in column-major order, in float32, for the
// types and attributes in cublasLt.h. Like cuBLASLt it proposes, by number of rows
//
//   - algorithms on tensor cores, which differ in their tile and add in the same order, except
//     those for few rows where Settings::unequal_rows says so
//   - algorithms on other units, which add in another order
//   - algorithms that split sums, if that is allowed; they lose the end of a sum whose length is no
//     multiple of 64
//
// An algorithm fixes the order, so that a row of a product depends only on itself and the
// algorithm. Products of 2^31 numbers or more are refused, and proposals during a capture.
#include <bit>
#include <cstring>
#include <new>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cublasLt.h"
#include "runtime.h"

struct cublasLtContext {};
struct cublasLtMatmulDescOpaque_t {
  cublasOperation_t transposes_a = CUBLAS_OP_N, transposes_b = CUBLAS_OP_N;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  uint64_t rows, cols;
  int64_t ld;
};
struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t workspace = 0;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint64_t implementations = ~uint64_t{0};
  uint32_t alignments[4] = {256, 256, 256, 256};  // of a, b, c and d
};

namespace {

using Layout = cublasLtMatrixLayoutOpaque_t;

constexpr uint64_t kMaxElements = uint64_t{1} << 31;

// The contents of a cublasLtMatmulAlgo_t.
struct Algorithm {
  uint16_t known = 0x600d, tile = 0;
  uint16_t lanes = 16;
  uint8_t parts = 1;
  bool is_refused = false;  // by cublasLtMatmul alone
  uint64_t flags = 0;       // CUBLASLT_NUMERICAL_IMPL_FLAGS_*
  uint32_t alignments[4] = {};
  uint64_t workspace = 0;
  uint64_t only_rows = 0;    // the only number of rows that it serves (columns of d); 0: all
  double milliseconds = 0;   // of the device's time
  uint32_t uneven_from = 0;  // with so many rows it adds in another order; 0: with none
  // The attribute that it lacks of those that say whether it splits sums; the other one says that
  // it does not. 0: it says what is so.
  uint32_t hidden = 0;
};

bool serves(const Algorithm& algorithm, const Layout& d) {
  return algorithm.only_rows == 0 || algorithm.only_rows == d.cols;
}

template <class T>
cublasStatus_t read(T& to, const void* value, size_t bytes) {
  if (value == nullptr || bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

size_t size_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

void load(const char* from, cudaDataType_t type, uint64_t count, float* to) {
  const auto each = [&](auto zero, const auto& widen) {
    for (uint64_t i = 0; i < count; ++i) {
      auto x = zero;
      std::memcpy(&x, from + i * sizeof x, sizeof x);
      to[i] = widen(x);
    }
  };
  if (type == CUDA_R_32F) each(float{}, [](float x) { return x; });
  if (type == CUDA_R_16BF) each(__nv_bfloat16{}, __bfloat162float);
  if (type == CUDA_R_16F) each(__half{}, __half2float);
}
void store(char* p, cudaDataType_t type, float x) {
  const __nv_bfloat16 as_bf16 = __float2bfloat16_rn(x);
  const __half as_f16 = __float2half_rn(x);
  if (type == CUDA_R_32F) std::memcpy(p, &x, 4);
  if (type == CUDA_R_16BF) std::memcpy(p, &as_bf16, 2);
  if (type == CUDA_R_16F) std::memcpy(p, &as_f16, 2);
}

// Columns one after the other, without gaps.
std::vector<float> columns(const char* from, const Layout& layout, uint64_t cols) {
  std::vector<float> all(layout.rows * cols);
  const uint64_t pitch = static_cast<uint64_t>(layout.ld) * size_of(layout.type);
  for (uint64_t j = 0; j < cols; ++j) {
    load(from + j * pitch, layout.type, layout.rows, &all[j * layout.rows]);
  }
  return all;
}

template <int kLanes>
float dot(const float* a, const float* b, uint64_t count) {
  float sums[kLanes] = {};
  uint64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (int lane = 0; i < count; ++i, ++lane) sums[lane] += a[i] * b[i];
  float sum = 0;
  for (const float part : sums) sum += part;
  return sum;
}

struct Call {
  Algorithm algorithm;
  Layout a, b, c, d;
  const char *from_a = nullptr, *from_b = nullptr, *from_c = nullptr;
  char *to = nullptr, *workspace = nullptr;
  float alpha = 0, beta = 0;
};

void multiply(const Call& x) {
  if (x.workspace != nullptr) std::memset(x.workspace, 0x5a, x.algorithm.workspace);
  const std::vector<float> a = columns(x.from_a, x.a, x.a.cols),
                           b = columns(x.from_b, x.b, x.b.cols);
  const bool is_uneven = x.algorithm.uneven_from > 0 && x.d.cols >= x.algorithm.uneven_from;
  const int lanes = is_uneven ? 24 - x.algorithm.lanes : x.algorithm.lanes;  // of 8 and 16
  const uint64_t k = x.a.rows, part = (k + x.algorithm.parts - 1) / x.algorithm.parts;
  // Trials of algorithms repeat rows.
  std::unordered_map<std::string_view, uint64_t> first_of;
  for (uint64_t j = 0; j < x.d.cols; ++j) {
    const std::string_view bytes(reinterpret_cast<const char*>(&b[j * k]), k * sizeof(float));
    const auto [same, is_new] = first_of.emplace(bytes, j);
    if (!is_new && x.beta == 0) {
      const uint64_t pitch = static_cast<uint64_t>(x.d.ld) * size_of(x.d.type);
      std::memcpy(x.to + j * pitch, x.to + same->second * pitch, x.d.rows * size_of(x.d.type));
      continue;
    }
    for (uint64_t i = 0; i < x.d.rows; ++i) {
      float sum = 0;
      const uint64_t end = x.algorithm.parts > 1 ? k / 64 * 64 : k;
      for (uint64_t first = 0; first < end; first += part) {
        const uint64_t count = std::min(part, end - first);
        const float *left = &a[i * k + first], *right = &b[j * k + first];
        sum += lanes == 16 ? dot<16>(left, right, count) : dot<8>(left, right, count);
      }
      sum *= x.alpha;
      const auto place = [&](const Layout& layout) {
        return (j * static_cast<uint64_t>(layout.ld) + i) * size_of(layout.type);
      };
      if (float before = 0; x.beta != 0) {
        load(x.from_c + place(x.c), x.c.type, 1, &before);
        sum += x.beta * before;
      }
      store(x.to + place(x.d), x.d.type, sum);
    }
  }
}

cublasLtMatmulHeuristicResult_t result_of(const Algorithm& algorithm) {
  return {.algo = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm),
          .workspaceSize = algorithm.workspace,
          .state = CUBLAS_STATUS_SUCCESS,
          .wavesCount = 1,
          .reserved = {}};
}

bool are_supported(const cublasLtMatmulDescOpaque_t& desc, const Layout& a, const Layout& b,
                   const Layout& c, const Layout& d) {
  return desc.transposes_a == CUBLAS_OP_T && desc.transposes_b == CUBLAS_OP_N && a.type == b.type &&
         c.type == d.type && (d.type == a.type || d.type == CUDA_R_32F);
}
bool fit(const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  for (const Layout* layout : {&a, &b, &c, &d}) {
    if (layout->rows == 0 || layout->cols == 0 || layout->ld < static_cast<int64_t>(layout->rows)) {
      return false;
    }
  }
  return a.rows == b.rows && d.rows == a.cols && d.cols == b.cols && c.rows == d.rows &&
         c.cols == d.cols;
}
bool is_whole(const void* p, const Layout& layout, uint32_t alignment) {
  const uint64_t elements = (layout.cols - 1) * static_cast<uint64_t>(layout.ld) + layout.rows;
  return reinterpret_cast<uintptr_t>(p) % alignment == 0 &&
         emulated::on_device(p, elements * size_of(layout.type));
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() { return 130000; }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *desc = new cublasLtMatmulDescOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void* value, size_t bytes) {
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return read(desc->transposes_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return read(desc->transposes_b, value, bytes);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
  *layout = new Layout{type, rows, cols, ld};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t name,
                                                const void* value, size_t bytes) {
  switch (name) {
    case CUBLASLT_MATRIX_LAYOUT_ROWS: return read(layout->rows, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS: return read(layout->cols, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD: return read(layout->ld, value, bytes);
  }
  return CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void* value, size_t bytes) {
  switch (name) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return read(preference->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return read(preference->reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_IMPL_MASK: return read(preference->implementations, value, bytes);
    default:
      return read(preference->alignments[name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value,
                  bytes);
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  *found = 0;
  const emulated::Settings& settings = emulated::settings();
  if (settings.heuristic_status != 0) return static_cast<cublasStatus_t>(settings.heuristic_status);
  if (handle == nullptr || requested < 1 || !fit(*a, *b, *c, *d)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!are_supported(*desc, *a, *b, *c, *d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (emulated::is_capturing()) return CUBLAS_STATUS_INTERNAL_ERROR;
  if (d->rows * d->cols >= kMaxElements) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool few_rows = d->cols <= 64;
  const uint64_t of_types = CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F |
                            (a->type == CUDA_R_32F    ? CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_32F
                             : a->type == CUDA_R_16BF ? CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF
                                                      : CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F);
  // Every flag of an algorithm must be allowed.
  const auto propose = [&](uint64_t operation, Algorithm algorithm, uint64_t only_rows) {
    const bool is_tensor = operation == CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA;
    algorithm.flags = operation | of_types;
    if (is_tensor && !settings.has_tensor_algorithms) return;
    if (!settings.ignores_mask && (algorithm.flags & ~preference->implementations) != 0) return;
    if (*found == std::min(requested, settings.algorithms_found)) return;
    algorithm.is_refused = *found < settings.algorithms_refused ||
                           d->cols <= settings.rows_refused ||
                           (is_tensor && settings.refuses_tensor);
    algorithm.uneven_from = *found < settings.algorithms_uneven ? settings.uneven_rows : 0;
    if (*found < settings.algorithms_silent) {
      algorithm.parts = 2;
      algorithm.hidden =
          *found % 2 == 0 ? CUBLASLT_ALGO_CONFIG_SPLITK_NUM : CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME;
    }
    std::memcpy(algorithm.alignments, preference->alignments, sizeof algorithm.alignments);
    algorithm.only_rows = only_rows;
    // The estimate is wrong: a later one that serves more rows is faster.
    algorithm.milliseconds = settings.product_ms * (*found < 3 ? 2 : 1);
    results[(*found)++] = result_of(algorithm);
  };
  constexpr uint64_t kFma = CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA,
                     kHmma = CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA;
  const auto tile = static_cast<uint16_t>(std::bit_width(d->cols) / 3);
  // The best algorithms serve only as many rows as were asked for.
  for (const uint64_t only_rows : {d->cols, uint64_t{0}}) {
    if (few_rows) {
      Algorithm algorithm = {.lanes = 8};
      if ((preference->reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0) {
        algorithm.parts = 3;
        algorithm.workspace = std::min<uint64_t>(preference->workspace, 4096);
      }
      propose(kFma, algorithm, only_rows);
    }
    const bool is_equal = d->cols > settings.unequal_rows;
    const auto lanes = static_cast<uint16_t>(is_equal ? 16 : 8);
    for (const uint16_t more : {0, 8}) {
      if (a->type == CUDA_R_32F) break;
      propose(kHmma, {.tile = static_cast<uint16_t>(tile + more), .lanes = lanes}, only_rows);
    }
    if (!few_rows) {
      const auto other = static_cast<uint16_t>(a->type == CUDA_R_32F ? 16 : 8);
      propose(kFma, {.tile = tile, .lanes = other}, only_rows);
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t name,
                                                    void* value, size_t bytes, size_t* written) {
  const auto algorithm = std::bit_cast<Algorithm>(*algo);
  const auto give = [&](auto number) {
    if (bytes != sizeof number) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(value, &number, sizeof number);
    *written = sizeof number;
    return CUBLAS_STATUS_SUCCESS;
  };
  const int says_parts = algorithm.hidden == 0 ? algorithm.parts : 1;
  const bool is_of_splits =
      name == CUBLASLT_ALGO_CONFIG_SPLITK_NUM || name == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME;
  if (is_of_splits ? algorithm.hidden == name : emulated::settings().lacks_attributes) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  switch (name) {
    case CUBLASLT_ALGO_CONFIG_ID: return give(int32_t{algorithm.lanes});
    case CUBLASLT_ALGO_CONFIG_TILE_ID: return give(uint32_t{algorithm.tile});
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM: return give(int32_t{says_parts});
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
      return give(uint32_t{says_parts > 1 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                          : CUBLASLT_REDUCTION_SCHEME_NONE});
    case CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID:
    case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID: return give(uint16_t{0});
    default: return give(uint32_t{0});
  }
}

cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                 cublasLtMatmulAlgoCapAttributes_t name,
                                                 void* value, size_t bytes, size_t* written) {
  const auto flags = std::bit_cast<Algorithm>(*algo).flags;
  if (name != CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS || bytes != sizeof flags) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(value, &flags, sizeof flags);
  *written = sizeof flags;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const auto algorithm = std::bit_cast<Algorithm>(*algo);
  if (handle == nullptr || algorithm.known != Algorithm{}.known || !fit(*a, *b, *c, *d)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *result = result_of(algorithm);
  return are_supported(*desc, *a, *b, *c, *d) && serves(algorithm, *d) &&
                 d->rows * d->cols < kMaxElements
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  const auto algorithm = std::bit_cast<Algorithm>(*algo);
  const auto& at = algorithm.alignments;
  if (handle == nullptr || algorithm.known != Algorithm{}.known ||
      !fit(*a_layout, *b_layout, *c_layout, *d_layout) ||
      !are_supported(*desc, *a_layout, *b_layout, *c_layout, *d_layout) ||
      !is_whole(a, *a_layout, at[0]) || !is_whole(b, *b_layout, at[1]) ||
      !is_whole(c, *c_layout, at[2]) || !is_whole(d, *d_layout, at[3]) ||
      !serves(algorithm, *d_layout) || algorithm.workspace > workspace_bytes ||
      reinterpret_cast<uintptr_t>(workspace) % 16 != 0 ||
      !emulated::on_device(workspace, workspace_bytes)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (algorithm.is_refused) return CUBLAS_STATUS_NOT_SUPPORTED;
  Call call = {algorithm, *a_layout, *b_layout, *c_layout, *d_layout};
  call.from_a = static_cast<const char*>(a);
  call.from_b = static_cast<const char*>(b);
  call.from_c = static_cast<const char*>(c);
  call.to = static_cast<char*>(d);
  call.workspace = static_cast<char*>(workspace);
  std::memcpy(&call.alpha, alpha, 4);
  std::memcpy(&call.beta, beta, 4);
  const cudaError_t error =
      emulated::enqueue(stream, emulated::ItemKind::kProduct, nullptr, [call] {
        multiply(call);
        emulated::spend(call.algorithm.milliseconds);
      });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
