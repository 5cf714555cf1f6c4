#pragma once

#include "model/decoder.h"
#include "model/model.h"
#include "ops/device_memory.h"

namespace pagedinfer {

// The type of the checkpoint's matrices, taken from the first of them.
DType file_dtype(const OpenedModel& model);

// Uploads every weight. On the CPU most become views of the mapped files, so the model must outlive
// `memory`. Matrices and biases get the type that the device uses for computing in `compute`; norms
// are float32. Throws Error if a tensor is missing or its shape is not the one of the spec.
Weights load_weights(const OpenedModel& model, DType compute, DeviceMemory& memory);

// Names and shapes of the tensors that load_weights() reads for a model of this spec.
std::vector<Checkpoint::Declared> needed_tensors(const ModelSpec& spec, const TensorNames& names);

// Bytes of the checkpoint's tensors that load_weights() reads. Throws Error as load_weights() does.
int64_t checkpoint_bytes(const OpenedModel& model);

// Bytes of device memory that load_weights() takes. Throws Error as load_weights() does.
int64_t weight_bytes(const OpenedModel& model, DType compute, const DeviceMemory& memory);

}  // namespace pagedinfer
