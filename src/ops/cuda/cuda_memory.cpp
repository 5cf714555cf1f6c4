#include "ops/cuda/cuda_memory.h"

#include <algorithm>

#include "core/check.h"
#include "kernels/int8_panels.h"
#include "kernels/kv_layout.h"
#include "ops/cuda/upload.h"
#include "ops/row_source.h"

namespace pagedinfer {
namespace {

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

}  // namespace

std::optional<Capacity> CudaMemory::capacity() const {
  size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "to ask for its memory");
  return Capacity{static_cast<int64_t>(total), static_cast<int64_t>(free)};
}

void CudaMemory::reserve_weights(int64_t bytes) {
  CHECK(weights_.memory.get() == nullptr);
  constexpr int64_t kNotPlanned = int64_t{1} << 20;  // tables of a few KiB
  weights_ = CudaPiece(bytes + kNotPlanned, "weights");
  staging_ = Staging(std::min(kUploadBytes, bytes + kNotPlanned));
}

void CudaMemory::reserve_kv(int64_t bytes) {
  CHECK(state_.kv_piece.memory.get() == nullptr);
  state_.kv_piece = CudaPiece(align_up(bytes, DeviceArena::kStepAlignment), "the KV cache");
}

StepMemory CudaMemory::memory_of(const StepBounds& bounds) const {
  return {state_.options.attention, bounds, state_.options.compute};
}

void CudaMemory::reserve_steps(const StepBounds& bounds, int64_t bytes) {
  CHECK(state_.step_piece.memory.get() == nullptr);
  state_.bounds = bounds;
  state_.step_piece = CudaPiece(bytes, "steps");
  const StepMemory planned = memory_of(bounds);
  arithmetic_.reserve(planned);
  steps_.reserve(planned);
}

int64_t CudaMemory::workspace_bytes(const StepBounds& bounds) const {
  return memory_of(bounds).total();
}

Tensor CudaMemory::allocate(DType dtype, int64_t rows, int64_t cols) {
  const int64_t bytes = rows * cols * size_of(dtype);
  char* const data = weights_.take(bytes, DeviceArena::kPermanentAlignment, "a tensor");
  check_cuda(cudaMemsetAsync(data, 0, static_cast<size_t>(bytes), state_.stream.get()), "a tensor");
  return {data, dtype, rows, cols, cols};
}

Tensor CudaMemory::upload(Tensor host, DType dtype) {
  char* const data = weights_.take(host.rows * host.cols * size_of(dtype),
                                   DeviceArena::kPermanentAlignment, "a weight");
  upload_rows(host, dtype, data, staging_, state_.stream.get());
  return {data, dtype, host.rows, host.cols, host.cols};
}

Tensor CudaMemory::upload_matrix(Tensor host, DType dtype) {
  return dtype == DType::kI8 ? upload_matrix(stored_rows(host), dtype) : upload(host, dtype);
}

Tensor CudaMemory::upload_matrix(const RowSource& source, DType dtype) {
  const int64_t rows = source.rows, cols = source.cols;
  if (dtype != DType::kI8) {
    char* const data =
        weights_.take(rows * cols * size_of(dtype), DeviceArena::kPermanentAlignment, "a weight");
    upload_rows(source, dtype, data, staging_, state_.stream.get());
    return {data, dtype, rows, cols, cols};
  }
  const int64_t panel = kernels::int8_weight_panel_bytes(cols);
  char* const data = weights_.take(kernels::int8_panels(rows) * panel, kInt8Alignment, "a weight");
  upload_int8(source, data, staging_, state_.stream.get());
  return {data, dtype, rows, cols, panel, Layout::kPanels};
}

int64_t CudaMemory::matrix_bytes(Tensor host, DType dtype) const {
  if (dtype != DType::kI8) return uploaded_bytes(host, dtype);
  // With the gap before it.
  return kernels::int8_panels(host.rows) * kernels::int8_weight_panel_bytes(host.cols) +
         kInt8Alignment - DeviceArena::kPermanentAlignment;
}

int64_t CudaMemory::uploaded_bytes(Tensor host, DType dtype) const {
  return align_up(host.rows * host.cols * size_of(dtype), DeviceArena::kPermanentAlignment);
}

KvLayer CudaMemory::allocate_kv(DType dtype, int kv_heads, int head_dim, int64_t num_positions) {
  CHECK(dtype == state_.options.compute || has_scales(dtype));
  const int64_t rows = kv_heads * num_positions;
  const auto tensor = [&](DType type, int64_t cols) {
    char* const data = state_.kv_piece.take(rows * cols * size_of(type),
                                            DeviceArena::kStepAlignment, "the KV cache");
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
void CudaMemory::clear_kv() {
  steps_.forget_graphs();
  state_.kv_piece.arena = DeviceArena(state_.kv_piece.arena.size());
}

int64_t CudaMemory::kv_bytes(DType dtype, int kv_heads, int head_dim, int64_t num_positions) const {
  const PositionBytes position = position_bytes(dtype, kv_heads, head_dim);
  const auto rounded = [](int64_t bytes) { return align_up(bytes, DeviceArena::kStepAlignment); };
  return 2 * (rounded(position.numbers * num_positions) + rounded(position.scales * num_positions));
}

int64_t CudaMemory::kv_bytes_per_position(DType dtype, int kv_heads, int head_dim) const {
  const PositionBytes position = position_bytes(dtype, kv_heads, head_dim);
  return 2 * (position.numbers + position.scales);
}

int64_t CudaMemory::held_bytes() const {
  return weights_.arena.size() + state_.kv_piece.arena.size() + state_.step_piece.arena.size();
}

}  // namespace pagedinfer
