#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/request.h"
#include "ops/arithmetic.h"  // Activation
#include "ops/attention_shape.h"

namespace pagedinfer {

// Rotary position embedding.
struct RopeSpec {
  std::vector<float> inv_freq = {};  // radians per position; a head begins with twice as many
                                     // channels that are rotated
  float scale = 1.0f;                // of cosines and sines
  // The frequencies of a run whose sequences may have more than `short_positions` tokens. Empty:
  // all runs have the same.
  std::vector<float> long_inv_freq = {};
  int short_positions = 0;
  // q at position p is also multiplied by factor p / positions_per_q_factor, or by the last one.
  // Empty: it is not. REQUIRES: all channels of a head are rotated.
  std::vector<float> q_factors = {};
  int positions_per_q_factor = 1;

  bool is_long(int max_model_len) const {
    return !long_inv_freq.empty() && max_model_len > short_positions;
  }
};

constexpr int kNoRope = -1;

// What may differ between the layers of a model.
struct LayerSpec {
  int rope = 0;              // index into ModelSpec::ropes, or kNoRope
  int window = 0;            // number of keys that a query sees, its own included; 0 = all
  bool has_experts = false;  // in place of the MLP
};

// The experts of a model's layers (ops/experts.h).
struct ExpertsSpec {
  int count = 0;      // 0: there are none
  int per_token = 0;  // that the router chooses
  int width = 0;      // outputs of gate and up
  bool normalizes_chosen = true;
  bool router_bias = false, biases = false;
  int shared_width = 0;       // of an expert that every token has; 0: there is none
  bool gates_shared = false;  // its output is multiplied by a sigmoid
  ClampedSwish swish = {};
};

// For each layer, whether its attention has a sliding window; nullopt if that is not known.
using SlidingLayers = std::optional<std::vector<bool>>;

// Which parts of q and of k are normalized before rope.
enum class QkNorm : uint8_t { kNone, kHeads, kRows };

// Where the checkpoint has the rows of q and k that rope rotates together: where rope() expects
// them, or as neighbours, which load_weights() puts apart. kNeighboursInFile: this is so in the
// file only, and adapters have them apart.
enum class PairRows : uint8_t { kApart, kNeighbours, kNeighboursInFile };

// A decoder-only transformer as numbers. Everything the forward pass needs to know about a
// family is here; the forward pass never asks which family it is.
struct ModelSpec {
  int hidden = 0, vocab = 0, max_positions = 0;
  int max_stretched_positions = 0;  // what --max-model-len may ask for; 0: max_positions
  int heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0;

  Activation activation = Activation::kSilu;
  float norm_eps = 1e-6f;
  float norm_weight_offset = 0.0f;  // added to the weights of all norms
  float embedding_scale = 1.0f;
  bool rounds_embedding_scale = false;  // to the type of computation
  float attention_scale = 0.0f;         // of the scores, usually 1 / sqrt(head_dim)
  float residual_scale = 1.0f;          // of a block's output when it is added to the residual
  float logit_scale = 1.0f;
  // A score or a logit x becomes cap * tanh(x / cap); 0: it stays.
  float score_cap = 0.0f, logit_cap = 0.0f;
  bool tied_embeddings = false;
  bool qkv_bias = false, attention_out_bias = false;
  float qkv_limit = 0.0f;  // q, k and v are limited to [-qkv_limit, qkv_limit]; 0: they are not
  bool has_sinks = false;  // AttentionArgs::sinks
  bool mlp_bias = false;   // gate, up and down
  // REQUIRES: kApart if heads are normalized.
  PairRows pair_rows = PairRows::kApart;
  QkNorm qk_norm = QkNorm::kNone;
  bool norms_inputs = true;    // of a layer's two blocks
  bool norms_outputs = false;  // of the blocks, before they are added to the residual

  ExpertsSpec experts = {};
  std::vector<LayerSpec> layers = {};
  std::vector<RopeSpec> ropes = {};

  std::vector<TokenId> eos_tokens = {};
  std::vector<TokenId> suppressed = {};        // never drawn
  std::vector<TokenId> suppressed_first = {};  // never drawn as the first token of a completion
  std::optional<TokenId> forced_end = {};      // the last token of a completion of maximum length
};

inline AttentionShape attention_shape(const ModelSpec& spec) {
  std::vector<int> windows;
  for (const LayerSpec& layer : spec.layers) windows.push_back(layer.window);
  std::ranges::sort(windows);
  windows.erase(std::unique(windows.begin(), windows.end()), windows.end());
  return {spec.heads, spec.kv_heads, spec.head_dim, std::move(windows)};
}

// Which frequencies a run has, "short" or "long"; nullopt if the model has one kind only.
inline std::optional<std::string_view> rope_length(const ModelSpec& spec, int max_model_len) {
  for (const RopeSpec& rope : spec.ropes) {
    if (!rope.long_inv_freq.empty()) return rope.is_long(max_model_len) ? "long" : "short";
  }
  return std::nullopt;
}

}  // namespace pagedinfer
