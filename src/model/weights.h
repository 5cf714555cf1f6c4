#pragma once

#include "model/decoder.h"
#include "model/model.h"
#include "ops/device_memory.h"

namespace pagedinfer {

// The type that the file keeps its matrices in, by the first one of them.
DType file_dtype(const LoadedModel& model);

// Uploads every weight; on the CPU most are views of the mapping, so the model must outlive the
// memory. Matrices and biases get the type that the device wants for this type of computation,
// norms are float32. Throws Error for a tensor that is missing or has another shape than the spec
// needs.
Weights load_weights(const LoadedModel& model, DType compute, DeviceMemory& memory);

// What load_weights() asks of a checkpoint for a model of this spec.
std::vector<Checkpoint::Declared> needed_tensors(const ModelSpec& spec, const TensorNames& names);

// Bytes that load_weights() takes up on the device. Throws Error where that does.
int64_t weight_bytes(const LoadedModel& model, DType compute, const DeviceMemory& memory);

}  // namespace pagedinfer
