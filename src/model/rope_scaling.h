#pragma once

#include <string_view>
#include <vector>

#include "io/json_file.h"
#include "model/spec.h"

namespace pagedinfer {

// A family's settings of rope for fields that config.json leaves out.
struct RopeDefaults {
  double theta = 10000.0;
  bool may_be_partial = false;  // "partial_rotary_factor": the share of a head that is rotated
  double rotated_share = 1.0;   // without that field
  // "original_max_position_embeddings"; 0: "max_position_embeddings"
  int trained_positions = 0;
  bool only_longrope = false;  // the only type beside default; "su" and "yarn" are its older names
  bool scales_q = false;       // by "llama_4_scaling_beta", where it is there
};

// Reads the rope of all layers into spec.ropes, as config.json gives it by "rope_theta" with
// "rope_scaling" or by "rope_parameters": types default, linear, llama3, yarn, longrope,
// dynamic, and mrope, which is default for text. Frequencies are rounded as in Hugging Face
// transformers, so that the angles of far positions agree. Complains of other types and of values
// out of range. REQUIRES: the sizes of the spec are read.
void read_rope(const JsonObject& config, const RopeDefaults& defaults, ModelSpec& spec);

// A rope of one type of layers.
struct LayerRope {
  std::string_view theta_key;  // key of its theta in configs without "rope_parameters"
  double theta;                // if neither gives one
};

// Reads the ropes of a model whose full and sliding layers have different ones, and gives them to
// the layers. "rope_parameters" has an object for each type of layers; in older configs
// "rope_scaling" applies to full layers only. `slides`: as read_windows() returns it.
void read_layer_ropes(const JsonObject& config, const LayerRope& full, const LayerRope& sliding,
                      const SlidingLayers& slides, ModelSpec& spec);

}  // namespace pagedinfer
