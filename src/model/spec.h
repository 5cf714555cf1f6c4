#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/request.h"
#include "ops/arithmetic.h"  // Activation

namespace pagedinfer {

// What may differ between the layers of a model.
struct LayerSpec {
  int rope = 0;    // index into ModelSpec::rope_inv_freq
  int window = 0;  // number of keys that a query sees, its own included; 0 = all
};

// A decoder-only transformer as numbers. Everything the forward pass needs to know about a
// family is here; the forward pass never asks which family it is.
struct ModelSpec {
  int hidden = 0, vocab = 0, max_positions = 0;
  int heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0;

  Activation activation = Activation::kSilu;
  float norm_eps = 1e-6f;
  float norm_weight_offset = 0.0f;  // added to the weights of all norms
  float embedding_scale = 1.0f;     // rounded to the type of computation before it is used
  float attention_scale = 0.0f;     // of the scores, usually 1 / sqrt(head_dim)
  bool tied_embeddings = false;
  bool qkv_bias = false;       // q, k and v have a bias
  bool qk_norm = false;        // q and k of each head are normalized before rope
  bool sandwich_norm = false;  // a block's output is normalized before it is added to the residual

  std::vector<LayerSpec> layers = {};
  std::vector<std::vector<float>> rope_inv_freq = {};  // each (head_dim / 2), radians per position

  std::vector<TokenId> eos_tokens = {};
  std::vector<TokenId> suppressed = {};        // never drawn
  std::vector<TokenId> suppressed_first = {};  // never drawn as the first token of a completion
  std::optional<TokenId> forced_end = {};      // the last token of a completion of maximum length
};

// The windows that its layers have, each once.
inline std::vector<int> windows_of(const ModelSpec& spec) {
  std::vector<int> windows;
  for (const LayerSpec& layer : spec.layers) windows.push_back(layer.window);
  std::ranges::sort(windows);
  windows.erase(std::ranges::unique(windows).begin(), windows.end());
  return windows;
}

}  // namespace pagedinfer
