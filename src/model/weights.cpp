#include "model/weights.h"

#include <cmath>
#include <functional>
#include <vector>

#include "core/float16.h"
#include "model/dummy.h"

namespace pagedinfer {
namespace {

enum class Kind : uint8_t { kEmbedding, kMatrix, kNorm, kBias };

struct Needed {
  const std::string& name;
  Tensor& destination;  // in Weights
  int64_t rows, cols;
  Kind kind = Kind::kMatrix;
};

// Calls visit(Needed) for every tensor of the model.
void for_each_tensor(const ModelSpec& spec, const TensorNames& names, Weights& weights,
                     const std::function<void(const Needed&)>& visit) {
  const int64_t hidden = spec.hidden, q_dim = int64_t{spec.heads} * spec.head_dim,
                kv_dim = int64_t{spec.kv_heads} * spec.head_dim;

  visit({names.embedding, weights.embedding, spec.vocab, hidden, Kind::kEmbedding});
  weights.layers.resize(spec.layers.size());
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const LayerNames& n = names.layers[i];
    LayerWeights& w = weights.layers[i];
    visit({n.attention_norm, w.attention_norm, 1, hidden, Kind::kNorm});
    visit({n.q, w.q, q_dim, hidden});
    visit({n.k, w.k, kv_dim, hidden});
    visit({n.v, w.v, kv_dim, hidden});
    if (spec.qkv_bias) {
      visit({n.q_bias, w.q_bias, 1, q_dim, Kind::kBias});
      visit({n.k_bias, w.k_bias, 1, kv_dim, Kind::kBias});
      visit({n.v_bias, w.v_bias, 1, kv_dim, Kind::kBias});
    }
    if (spec.qk_norm) {
      visit({n.q_norm, w.q_norm, 1, spec.head_dim, Kind::kNorm});
      visit({n.k_norm, w.k_norm, 1, spec.head_dim, Kind::kNorm});
    }
    visit({n.attention_out, w.attention_out, hidden, q_dim});
    if (spec.sandwich_norm) {
      visit({n.attention_out_norm, w.attention_out_norm, 1, hidden, Kind::kNorm});
      visit({n.mlp_out_norm, w.mlp_out_norm, 1, hidden, Kind::kNorm});
    }
    visit({n.mlp_norm, w.mlp_norm, 1, hidden, Kind::kNorm});
    visit({n.gate, w.gate, spec.intermediate, hidden});
    visit({n.up, w.up, spec.intermediate, hidden});
    visit({n.down, w.down, hidden, spec.intermediate});
  }
  visit({names.final_norm, weights.final_norm, 1, hidden, Kind::kNorm});
  if (!spec.tied_embeddings) visit({names.output, weights.output, spec.vocab, hidden});
}

// Chosen so that products keep the scale of their input and norms multiply by about 1.
DummyRange dummy_range(const Needed& needed, const ModelSpec& spec) {
  switch (needed.kind) {
    case Kind::kNorm: return {1.0f - spec.norm_weight_offset, 0.25f};
    case Kind::kBias: return {0.0f, 0.25f};
    case Kind::kEmbedding:
    case Kind::kMatrix: break;
  }
  return {0.0f, std::sqrt(3.0f / static_cast<float>(needed.cols))};
}

bool is_multiplied(const OpenedModel& model, Kind kind) {
  return kind == Kind::kMatrix || (kind == Kind::kEmbedding && model.spec.tied_embeddings);
}

// An embedding that is looked up only stays as it is: a step reads few of its rows.
DType uploaded_type(const OpenedModel& model, Kind kind, DType of_file, DType compute,
                    const DeviceMemory& memory, Quantization quantize) {
  if (kind == Kind::kNorm) return DType::kF32;
  if (kind == Kind::kBias) return memory.bias_type(compute);
  if (quantize == Quantization::kInt8 && is_multiplied(model, kind)) return DType::kI8;
  return memory.matrix_type(of_file, compute);
}

// Rounds to nearest, ties to even.
float rounded(float value, DType type) {
  if (type == DType::kF16) return from_f16(to_f16(value));
  return type == DType::kBF16 ? from_bf16(to_bf16(value)) : value;
}

}  // namespace

DType file_dtype(const OpenedModel& model) {
  return model.checkpoint.dtype(model.names.layers.front().q);
}

Weights load_weights(const OpenedModel& model, DType compute, DeviceMemory& memory,
                     Quantization quantize) {
  Weights weights;
  for_each_tensor(model.spec, model.names, weights, [&](const Needed& needed) {
    const Tensor host = model.checkpoint.tensor(needed.name, needed.rows, needed.cols);
    if (model.is_dummy) fill_dummy(needed.name, dummy_range(needed, model.spec), host);
    const DType type = uploaded_type(model, needed.kind, host.dtype, compute, memory, quantize);
    if (!is_multiplied(model, needed.kind)) {
      needed.destination = memory.upload(host, type);
      return;
    }
    needed.destination = memory.upload_matrix(host, type);
    if (memory.packs(type)) model.checkpoint.give_back(needed.name);
  });
  if (model.spec.tied_embeddings) weights.output = weights.embedding;
  weights.embedding_scale = rounded(model.spec.embedding_scale, compute);

  for (const std::vector<float>& table : model.spec.rope_inv_freq) {
    const auto size = static_cast<int64_t>(table.size());
    // upload() only reads it.
    Tensor host = {const_cast<float*>(table.data()), DType::kF32, 1, size, size};
    weights.rope_inv_freq.push_back(memory.upload(host, DType::kF32));
  }
  return weights;
}

std::vector<Checkpoint::Declared> needed_tensors(const ModelSpec& spec, const TensorNames& names) {
  std::vector<Checkpoint::Declared> all;
  Weights unused;
  for_each_tensor(spec, names, unused, [&](const Needed& needed) {
    all.push_back({needed.name, needed.rows, needed.cols});
  });
  return all;
}

WeightBytes weight_bytes(const OpenedModel& model, DType compute, const DeviceMemory& memory,
                         Quantization quantize) {
  Weights unused;
  WeightBytes bytes;
  const bool is_on_host = !memory.capacity();
  for_each_tensor(model.spec, model.names, unused, [&](const Needed& needed) {
    const Tensor host = model.checkpoint.tensor(needed.name, needed.rows, needed.cols);
    const DType type = uploaded_type(model, needed.kind, host.dtype, compute, memory, quantize);
    const bool is_matrix = is_multiplied(model, needed.kind);
    const bool stays = is_on_host && !(is_matrix && memory.packs(type));
    const int64_t mapped = stays ? host.bytes() : 0;
    bytes.mapped += mapped;
    bytes.copied +=
        (is_matrix ? memory.matrix_bytes(host, type) : memory.uploaded_bytes(host, type)) - mapped;
  });
  return bytes;
}

}  // namespace pagedinfer
