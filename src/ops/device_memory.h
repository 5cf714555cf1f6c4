// The memory of a device: tensors that live longer than a step, and sizes for the memory plan.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor.h"
#include "ops/kv_layer.h"

namespace pagedinfer {

// The largest sizes that any step of a run has.
struct StepBounds {
  int64_t tokens = 0, sequences = 0;
  int64_t widest_input = 0;  // columns of the widest input of a product
  int64_t vocab = 0;
  int64_t context = 0;  // positions of the longest sequence
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
  // Makes a matrix of the checkpoint available to the device's Arithmetic, converted to `dtype`.
  // The result may be a view of `host`, which must outlive the DeviceMemory.
  virtual Tensor upload(Tensor host, DType dtype) = 0;
  virtual KvLayer allocate_kv(DType dtype, int kv_heads, int head_dim, int64_t num_positions) = 0;

  // The types in which to upload matrices and biases if products are computed in `compute`.
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
