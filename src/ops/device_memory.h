// What lives on a device longer than a step, and how much memory a run takes of it.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor.h"
#include "ops/kv_layer.h"

namespace pagedinfer {

// The largest sizes that any step of a run has.
struct StepBounds {
  int64_t tokens = 0, sequences = 0;
  int64_t widest_input = 0;  // columns of what a product reads
  int64_t vocab = 0;
  int64_t context = 0;  // positions that a sequence sees
  int block_size = 1;
  int heads = 0, kv_heads = 0, head_dim = 0;
};

struct Capacity {
  int64_t total = 0, free = 0;  // bytes
};

// Tensors live until the DeviceMemory is destroyed.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  virtual Tensor allocate(DType dtype, int64_t rows, int64_t cols) = 0;  // zeros
  // A matrix of the file as the device's Arithmetic can use it, converted to `dtype` if it has
  // another one. May be a view: `host` must outlive the DeviceMemory.
  virtual Tensor upload(Tensor host, DType dtype) = 0;
  virtual KvLayer allocate_kv(DType dtype, int kv_heads, int head_dim, int64_t num_positions) = 0;

  // The types to upload a product's matrix and a bias in when products are computed in `compute`.
  virtual DType matrix_type(DType of_file, DType compute) const {
    return compute == DType::kF32 ? of_file : compute;
  }
  virtual DType bias_type(DType compute) const = 0;

  // For the memory plan. What upload() takes up, with what it keeps of `host`:
  virtual int64_t uploaded_bytes(Tensor host, DType dtype) const;
  // what allocate_kv() takes up for each position:
  virtual int64_t kv_bytes_per_position(DType dtype, int kv_heads, int head_dim) const = 0;
  // and what a step takes beside its scratch().
  virtual int64_t workspace_bytes(const StepBounds&) const { return 0; }
  // Of the device, at this moment; nullopt: it uses the host's memory.
  virtual std::optional<Capacity> capacity() const { return std::nullopt; }

  // Takes what a run needs, all at once: `permanent` bytes for the tensors above, `scratch` for a
  // step's scratch() and workspace_bytes(bounds). For backends that do not take memory as they go;
  // called once, before anything else takes memory.
  virtual void reserve(const StepBounds& bounds, int64_t permanent, int64_t scratch) {
    static_cast<void>(bounds), static_cast<void>(permanent), static_cast<void>(scratch);
  }
};

}  // namespace pagedinfer
