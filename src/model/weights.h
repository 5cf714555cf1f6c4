#pragma once

#include "core/tensor.h"
#include "model/decoder.h"
#include "model/model.h"
#include "ops/device_memory.h"

namespace pagedinfer {

// The type of the checkpoint's matrices, taken from the first of them; if that is quantized, the
// type of the embedding; if that is quantized too, the type that the method says, or that of a
// norm.
DType file_dtype(const Checkpoint& files, const QuantizedWeights& quantized,
                 const TensorNames& names);
inline DType file_dtype(const OpenedModel& model) {
  return file_dtype(model.checkpoint, model.quantized, model.names);
}

// Columns that share a scale where kInt4 rounds numbers to codes.
inline constexpr int64_t kInt4Group = 128;

// Uploads every weight. On the CPU most become views of the mapped files, so the model must outlive
// `memory`. Matrices and biases get the type that the device uses for computing in `compute`; norms
// are float32. kInt8: matrices of layers, the output and an embedding that is tied to it become
// int8, and their pages of the files are given back. kInt4: the same, but those of layers become
// codes of 4 bits. kCodes and kInt4: codes of 4 bits of the checkpoint stay what they are, where
// products can keep them. Other quantized matrices of the checkpoint are
// dequantized and rounded once. If `compute` is float32 and the matrices do not become int8, they
// are rounded to `dequantized`, by default float32. Matrices that the model's adapter changes
// become sums, in the type of computation. The ropes get the frequencies for runs of the spec's
// max_positions. Throws Error if a tensor is missing or does not have the shape that the spec
// gives.
Weights load_weights(const OpenedModel& model, DType compute, DeviceMemory& memory,
                     Quantization quantize = Quantization::kNone, DType dequantized = DType::kF32);

// How many quantized matrices of the checkpoint the adapter changes. They do not keep their codes.
int64_t num_merged(const Adapter& adapter, const ModelSpec& spec, const TensorNames& names,
                   const Checkpoint& files, const QuantizedWeights& quantized);
inline int64_t num_merged(const OpenedModel& model) {
  if (!model.adapter) return 0;
  return num_merged(*model.adapter, model.spec, model.names, model.checkpoint, model.quantized);
}

// What the memory plan counts for weights: tensors of the checkpoint that stay mapped on the host,
// and memory of the device.
struct WeightBytes {
  int64_t mapped = 0, copied = 0;
  int64_t total() const { return mapped + copied; }
};
// The bytes that load_weights() takes. Throws the same Errors.
WeightBytes weight_bytes(const OpenedModel& model, DType compute, const DeviceMemory& memory,
                         Quantization quantize = Quantization::kNone,
                         DType dequantized = DType::kF32);

}  // namespace pagedinfer
