// The memory of a device: tensors that live longer than a step, and sizes for the memory plan.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor.h"
#include "ops/code_source.h"
#include "ops/kv_layer.h"
#include "ops/low_rank.h"
#include "ops/row_source.h"

namespace pagedinfer {

// Of a model with experts (ops/experts.h).
struct ExpertBounds {
  int64_t experts = 0, per_row = 0;  // without the shared one; 0: there are none
  int64_t hidden = 0, width = 0, shared_width = 0;
};

// The largest sizes that any step of a run has.
struct StepBounds {
  int64_t tokens = 0, sequences = 0;
  int64_t widest_input = 0;    // columns of the widest input of a product
  bool int8_products = false;  // weights may be kI8
  ExpertBounds experts = {};
  int64_t vocab = 0;
  int64_t context = 0;  // positions of the longest sequence
  int block_size = 1;
};

struct Capacity {
  int64_t total = 0, free = 0;  // bytes
};

// Weights live as long as the DeviceMemory, caches until clear_kv(). reserve_weights(),
// reserve_kv() and reserve_steps() allocate one piece of memory each. Each is called at most once,
// before its piece is used; a backend that allocates on demand may ignore it.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Weights.
  virtual void reserve_weights(int64_t bytes) { static_cast<void>(bytes); }
  virtual Tensor allocate(DType dtype, int64_t rows, int64_t cols) = 0;  // zeros
  // Makes a matrix of the checkpoint available to the device's Arithmetic, converted to `dtype`.
  // The result may be a view of `host`, which must outlive the DeviceMemory then.
  virtual Tensor upload(Tensor host, DType dtype) = 0;
  // As upload(), but the result is for matmul() and embed() only, so the device may choose another
  // layout. For kI8 it must.
  virtual Tensor upload_matrix(Tensor host, DType dtype) { return upload(host, dtype); }
  // The same for a matrix that few steps may read: a view of `host` is not made present.
  virtual Tensor upload_seldom_read(Tensor host, DType dtype) { return upload_matrix(host, dtype); }
  // As upload_matrix() for a matrix whose rows are computed. All threads read the rows now, each
  // row once. REQUIRES: a step can multiply by matrices of `dtype`.
  virtual Tensor upload_matrix(const RowSource& source, DType dtype) = 0;
  // An AddLowRank for matrices that are uploaded here.
  virtual void add_low_rank(const LowRankRow& row, int64_t first, int64_t n, float* y) const {
    pagedinfer::add_low_rank(row, first, n, y);
  }
  // Whether upload_matrix() copies a matrix into another layout, and keeps no view of `host`.
  virtual bool packs(DType dtype) const { return static_cast<void>(dtype), false; }
  // The types in which to upload matrices and biases if products are computed in `compute`.
  virtual DType matrix_type(DType of_file, DType compute) const {
    return compute == DType::kF32 ? of_file : compute;
  }
  virtual DType bias_type(DType compute) const = 0;
  // The bytes that the result of upload() or upload_matrix() takes, including a view of `host`. For
  // the memory plan.
  virtual int64_t uploaded_bytes(Tensor host, DType dtype) const {
    const int64_t copied = dtype == host.dtype ? 0 : host.rows * host.cols * size_of(dtype);
    return host.bytes() + copied;
  }
  virtual int64_t matrix_bytes(Tensor host, DType dtype) const {
    return uploaded_bytes(host, dtype);
  }

  // A matrix of type kI4 for matmul() and embed(), and the bytes that it takes, for which
  // CodeSource::read may be missing. All threads read the rows now, each row once.
  // REQUIRES: BackendInfo::keeps_codes, and can_keep_groups() says yes.
  virtual Tensor upload_codes(const CodeSource&) { return {}; }
  virtual int64_t codes_bytes(const CodeSource&) const { return 0; }

  // Caches. A later run uses the memory of the caches of earlier runs.
  virtual void reserve_kv(int64_t bytes) { static_cast<void>(bytes); }
  virtual KvLayer allocate_kv(DType dtype, int kv_heads, int head_dim, int64_t num_positions) = 0;
  // Frees all caches that allocate_kv() returned. REQUIRES: no step is in flight.
  virtual void clear_kv() = 0;
  // The share of reserve_kv()'s bytes that allocate_kv() takes.
  virtual int64_t kv_bytes(DType dtype, int kv_heads, int head_dim,
                           int64_t num_positions) const = 0;
  // For the memory plan, where rounding does not count.
  virtual int64_t kv_bytes_per_position(DType dtype, int kv_heads, int head_dim) const = 0;

  // For steps within the bounds: `bytes` for scratch() and workspace_bytes(bounds) together.
  virtual void reserve_steps(const StepBounds& bounds, int64_t bytes) = 0;
  // The bytes that a step takes beside its scratch(). For the memory plan.
  virtual int64_t workspace_bytes(const StepBounds&) const { return 0; }
  // The maximum of further host memory that the computing threads take: their stacks and buffers.
  // For the memory plan.
  virtual int64_t thread_bytes(const StepBounds&) const { return 0; }

  // Faults in the weights that are not seldom read and all memory reserved for caches and steps,
  // and waits for the end. The first of several runs then costs no more than the others.
  virtual void make_present() {}
  // Bytes allocated so far, on the device or, if it has no capacity(), on the host.
  virtual int64_t held_bytes() const = 0;
  // The present capacity of the device's own memory; nullopt: it uses the host's memory.
  virtual std::optional<Capacity> capacity() const { return std::nullopt; }
};

}  // namespace pagedinfer
