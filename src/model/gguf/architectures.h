// The architectures of GGUF files that are read: which model of transformers each is, and how the
// files call its numbers and tensors.
#pragma once

#include <string_view>
#include <vector>

#include "core/json.h"
#include "io/json_file.h"

namespace pagedinfer {

class GgufKeys;

// A key below "ARCHITECTURE." and the field of config.json that has its value.
struct GgufField {
  std::string_view key, field;
};

// Tensors of a layer: what they are called below "blk.N." and below "model.layers.N.". A name that
// ends with a dot stands for all that begin so: a weight and its bias.
struct GgufName {
  std::string_view gguf, usual;
};

// The names of an expert's matrices, "model.layers.N.BLOCK.E.GATE".
struct GgufExperts {
  std::string_view block = "mlp.experts";
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";
};

// What all architectures have in common stands in gguf_config.cpp and gguf_tensors.cpp.
struct GgufArchitecture {
  std::string_view name;        // "general.architecture"
  std::string_view model = {};  // in transformers; empty: write_more() writes it
  std::vector<GgufField> fields = {};
  std::vector<GgufName> names = {};  // they precede the common ones
  GgufExperts experts = {};
  // The rows of q and k that rope rotates together are neighbours.
  bool turns_heads = false;
  // The weights of norms are larger by 1.
  bool adds_to_norms = false;
  // The bounds of yarn's frequencies are not rounded to whole ones.
  bool has_exact_yarn = false;
  // Writes fields that are no copies; null: there are none.
  void (*write_more)(const GgufKeys& keys, JsonWriter& config) = nullptr;
};

// The one that "general.architecture" names. Throws Error if it is none of them.
const GgufArchitecture& find_architecture(const JsonObject& metadata);

}  // namespace pagedinfer
