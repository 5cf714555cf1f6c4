#pragma once

#include <string>
#include <vector>

#include "io/safetensors.h"
#include "model/generation_config.h"
#include "model/spec.h"

namespace pagedinfer {

// What the tensors of a model are called in its files.
struct LayerNames {
  std::string attention_norm, q, k, v, attention_out, mlp_norm, gate, up, down;
  // Looked for only where the spec asks for them.
  std::string q_bias = {}, k_bias = {}, v_bias = {}, q_norm = {}, k_norm = {};
  std::string attention_out_norm = {}, mlp_out_norm = {};
};

struct TensorNames {
  std::string embedding, final_norm;
  std::string output;  // not looked for where the embedding is used instead
  std::vector<LayerNames> layers = {};
};

// A model directory, understood but not loaded: of the weights only the headers are read.
struct LoadedModel {
  ModelSpec spec;
  TensorNames names;
  GenerationDefaults generation;
  Checkpoint checkpoint;
  bool is_dummy = false;  // the checkpoint's tensors are there to be filled
};

// kDummy makes weights up, of the type and the shapes that config.json asks for.
enum class WeightSource : uint8_t { kFiles, kDummy };

// Throws Error, naming the file and the field, for whatever it cannot run.
LoadedModel open_model(const std::string& dir, WeightSource source = WeightSource::kFiles);

}  // namespace pagedinfer
