#include "ops/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/build_facts.h"
#include "core/check.h"
#include "core/error.h"
#include "kernels/int8_panels.h"
#include "kernels/kv_layout.h"
#include "ops/cuda/cublas_lt.h"
#include "ops/cuda/machine_code.h"
#include "ops/cuda/step_memory.h"
#include "ops/cuda/upload.h"
#include "ops/row_source.h"

namespace pagedinfer {
namespace {

constexpr int kMinCapability = 8;
// The size of the pieces in which a weight is uploaded. Each piece starts threads, and the device
// waits for the first piece.
constexpr int64_t kUploadBytes = int64_t{64} << 20;
// The alignment of weights in int8: a cache line. A panel is a multiple of it, so weights stay
// adjacent.
constexpr int64_t kInt8Alignment = 128;

// Bytes of the keys, or of the values, of one position in one layer.
struct PositionBytes {
  int64_t numbers = 0, scales = 0;
};
PositionBytes position_bytes(DType dtype, int kv_heads, int head_dim) {
  return {
      .numbers = kernels::kv_position_bytes(static_cast<int>(size_of(dtype)), kv_heads, head_dim),
      .scales = has_scales(dtype) ? kv_heads * size_of(DType::kF32) : 0};
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// What the driver says about GPUs, if there is a driver.
struct Found {
  int driver = 0;
  cudaError_t status = cudaSuccess;  // of counting
  int count = 0;

  bool none() const { return status == cudaErrorNoDevice || (status == cudaSuccess && count == 0); }
};

Found find_gpus() {
  Found found;
  static_cast<void>(cudaDriverGetVersion(&found.driver));
  found.status = cudaGetDeviceCount(&found.count);
  static_cast<void>(cudaGetLastError());
  return found;
}

}  // namespace

std::string cuda_problem() {
  const Found gpus = find_gpus();
  const cudaError_t status = gpus.status;
  if (gpus.driver == 0) return "this machine has no NVIDIA driver";
  if (status == cudaErrorInsufficientDriver) {
    int runtime = 0;
    static_cast<void>(cudaRuntimeGetVersion(&runtime));
    return fmt::format("the NVIDIA driver is for CUDA {}, this build needs {}",
                       version_text(gpus.driver), version_text(runtime));
  }
  if (gpus.none()) return "the NVIDIA driver finds no GPU";
  if (status != cudaSuccess) return fmt::format("CUDA: {}", cudaGetErrorString(status));
  cudaDeviceProp properties = {};
  if (const cudaError_t found = cudaGetDeviceProperties(&properties, 0); found != cudaSuccess) {
    return fmt::format("CUDA: {}", cudaGetErrorString(found));
  }
  if (properties.major < kMinCapability) {
    return fmt::format("{}: compute capability {}.{}, needed is {}.0", properties.name,
                       properties.major, properties.minor, kMinCapability);
  }
  return CublasLt::problem();
}

bool has_gpu() {
  const Found gpus = find_gpus();
  return gpus.driver != 0 && !gpus.none();
}

std::string cuda_first_start() {
  constexpr std::string_view kFor = " for ";
  std::string_view built = build_facts().cuda;
  const size_t at = built.find(kFor);
  if (at == built.npos || !cuda_problem().empty()) return "";
  built.remove_prefix(at + kFor.size());
  cudaDeviceProp gpu = {};
  check_cuda(cudaGetDeviceProperties(&gpu, 0), "to look at the GPU");
  if (has_machine_code(built, gpu.major, gpu.minor)) return "";
  return fmt::format(
      "the driver makes machine code for {} (compute capability {}.{}) at the first start, which "
      "takes longer",
      gpu.name, gpu.major, gpu.minor);
}

std::unique_ptr<CudaOps> make_cuda_ops(const CudaOptions& options) {
  if (const std::string problem = cuda_problem(); !problem.empty()) throw Error(problem);
  return std::make_unique<CudaBackend>(options);
}

CudaBackend::CudaBackend(const CudaOptions& options) : state_(options) {
  CHECK(options.compute != DType::kI32);
}

CudaBackend::~CudaBackend() {
  // Queued work still uses the memory that is freed next.
  static_cast<void>(cudaStreamSynchronize(stream_.get()));
}

std::string CudaBackend::description() const {
  return fmt::format("cuda ({}, {}{})", device_.name, name_of(options_.compute),
                     options_.deterministic ? ", deterministic" : "");
}

std::optional<Capacity> CudaBackend::capacity() const {
  size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "to ask for its memory");
  return Capacity{static_cast<int64_t>(total), static_cast<int64_t>(free)};
}

void CudaBackend::wait(const char* what) { check_cuda(cudaStreamSynchronize(stream_.get()), what); }

void CudaBackend::reserve_weights(int64_t bytes) {
  CHECK(weights_.memory.get() == nullptr);
  constexpr int64_t kNotPlanned = int64_t{1} << 20;  // tables of a few KiB
  weights_ = CudaPiece(bytes + kNotPlanned, "weights");
  weight_staging_ = Staging(std::min(kUploadBytes, bytes + kNotPlanned));
}

void CudaBackend::reserve_kv(int64_t bytes) {
  CHECK(kv_.memory.get() == nullptr);
  kv_ = CudaPiece(align_up(bytes, DeviceArena::kStepAlignment), "the KV cache");
}

void CudaBackend::reserve_steps(const StepBounds& bounds, int64_t bytes) {
  CHECK(step_piece_.memory.get() == nullptr);
  state_.bounds = bounds;
  step_piece_ = CudaPiece(bytes, "steps");
  const StepMemory planned(bounds, options_.compute);
  arithmetic_.reserve(planned);
  steps_.reserve(planned);
}

int64_t CudaBackend::workspace_bytes(const StepBounds& bounds) const {
  return StepMemory(bounds, options_.compute).total();
}

Tensor CudaBackend::allocate(DType dtype, int64_t rows, int64_t cols) {
  const int64_t bytes = rows * cols * size_of(dtype);
  char* const data = weights_.take(bytes, DeviceArena::kPermanentAlignment, "a tensor");
  check_cuda(cudaMemsetAsync(data, 0, static_cast<size_t>(bytes), stream_.get()), "a tensor");
  return {data, dtype, rows, cols, cols};
}

Tensor CudaBackend::upload(Tensor host, DType dtype) {
  char* const data = weights_.take(host.rows * host.cols * size_of(dtype),
                                   DeviceArena::kPermanentAlignment, "a weight");
  upload_rows(host, dtype, data, weight_staging_, stream_.get());
  return {data, dtype, host.rows, host.cols, host.cols};
}

Tensor CudaBackend::upload_matrix(Tensor host, DType dtype) {
  return dtype == DType::kI8 ? upload_matrix(stored_rows(host), dtype) : upload(host, dtype);
}

Tensor CudaBackend::upload_matrix(const RowSource& source, DType dtype) {
  const int64_t rows = source.rows, cols = source.cols;
  if (dtype != DType::kI8) {
    char* const data =
        weights_.take(rows * cols * size_of(dtype), DeviceArena::kPermanentAlignment, "a weight");
    upload_rows(source, dtype, data, weight_staging_, stream_.get());
    return {data, dtype, rows, cols, cols};
  }
  const int64_t panel = kernels::int8_weight_panel_bytes(cols);
  char* const data = weights_.take(kernels::int8_panels(rows) * panel, kInt8Alignment, "a weight");
  upload_int8(source, data, weight_staging_, stream_.get());
  return {data, dtype, rows, cols, panel, Layout::kPanels};
}

int64_t CudaBackend::matrix_bytes(Tensor host, DType dtype) const {
  if (dtype != DType::kI8) return uploaded_bytes(host, dtype);
  // With the gap before it.
  return kernels::int8_panels(host.rows) * kernels::int8_weight_panel_bytes(host.cols) +
         kInt8Alignment - DeviceArena::kPermanentAlignment;
}

int64_t CudaBackend::uploaded_bytes(Tensor host, DType dtype) const {
  return align_up(host.rows * host.cols * size_of(dtype), DeviceArena::kPermanentAlignment);
}

KvLayer CudaBackend::allocate_kv(DType dtype, int kv_heads, int head_dim, int64_t num_positions) {
  CHECK(dtype == options_.compute || has_scales(dtype));
  const int64_t rows = kv_heads * num_positions;
  const auto tensor = [&](DType type, int64_t cols) {
    char* const data =
        kv_.take(rows * cols * size_of(type), DeviceArena::kStepAlignment, "the KV cache");
    return Tensor{data, type, rows, cols, cols};
  };
  const int64_t cols = kernels::kv_row_elements(head_dim, static_cast<int>(size_of(dtype)));
  const Tensor k = tensor(dtype, cols), v = tensor(dtype, cols);
  KvLayer layer = {k, v, kv_heads, head_dim, num_positions};
  if (!has_scales(dtype)) return layer;
  layer.k_scale = tensor(DType::kF32, 1);
  layer.v_scale = tensor(DType::kF32, 1);
  return layer;
}

// Graphs that were captured for one cache are invalid for the next.
void CudaBackend::clear_kv() {
  steps_.forget_graphs();
  kv_.arena = DeviceArena(kv_.arena.size());
}

int64_t CudaBackend::kv_bytes(DType dtype, int kv_heads, int head_dim,
                              int64_t num_positions) const {
  const PositionBytes position = position_bytes(dtype, kv_heads, head_dim);
  const auto rounded = [](int64_t bytes) { return align_up(bytes, DeviceArena::kStepAlignment); };
  return 2 * (rounded(position.numbers * num_positions) + rounded(position.scales * num_positions));
}

int64_t CudaBackend::kv_bytes_per_position(DType dtype, int kv_heads, int head_dim) const {
  const PositionBytes position = position_bytes(dtype, kv_heads, head_dim);
  return 2 * (position.numbers + position.scales);
}

void CudaBackend::read(Tensor from, void* to) {
  const auto row_bytes = static_cast<size_t>(from.cols * size_of(from.dtype));
  check_cuda(cudaMemcpy2DAsync(
                 to, row_bytes, from.data, static_cast<size_t>(from.stride * size_of(from.dtype)),
                 row_bytes, static_cast<size_t>(from.rows), cudaMemcpyDeviceToHost, stream_.get()),
             "a copy from the GPU");
  wait("a copy from the GPU");
}

void CudaBackend::write(const void* from, Tensor to) {
  const auto row_bytes = static_cast<size_t>(to.cols * size_of(to.dtype));
  check_cuda(cudaMemcpy2DAsync(to.data, static_cast<size_t>(to.stride * size_of(to.dtype)), from,
                               row_bytes, row_bytes, static_cast<size_t>(to.rows),
                               cudaMemcpyHostToDevice, stream_.get()),
             "a copy to the GPU");
  wait("a copy to the GPU");
}

}  // namespace pagedinfer
