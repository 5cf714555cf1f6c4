// Gemma 1, and what later Gemmas have in common with it.
#include <cmath>

#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {
namespace {

void set_scales(ModelSpec& spec) {
  spec.activation = Activation::kGeluTanh;
  spec.norm_weight_offset = 1.0f;
  spec.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden)));
  spec.rounds_embedding_scale = true;
}

}  // namespace

void read_gemma(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_sizes(config,
             {.hidden = 3072,
              .vocab = 256000,
              .intermediate = 24576,
              .max_positions = 8192,
              .layers = 28,
              .heads = 16,
              .kv_heads = 16,
              .head_dim = 256,
              .tied_embeddings = true,
              .eos_token = 1},
             spec);
  // The first releases say "gelu" and mean the tanh formula.
  expect_activation(config, "hidden_act", Activation::kGeluTanh, "gelu");
  expect_activation(config, "hidden_activation", Activation::kGeluTanh);
  refuse(config, "use_bidirectional_attention");
  read_attention_bias(config, spec);
  set_scales(spec);
  read_rope(config, {}, spec);
  read_equal_windows(config, 0, spec);
  names = {usual_names("model.", "lm_head.weight", spec)};
}

void read_newer_gemma(const JsonObject& config, int vocab, int max_positions, ModelSpec& spec) {
  read_sizes(config,
             {.hidden = 2304,
              .vocab = vocab,
              .intermediate = 9216,
              .max_positions = max_positions,
              .layers = 26,
              .heads = 8,
              .kv_heads = 4,
              .head_dim = 256,
              .tied_embeddings = true,
              .eos_token = 1},
             spec);
  expect_activation(config, "hidden_activation", Activation::kGeluTanh);
  refuse(config, "use_bidirectional_attention");
  read_attention_bias(config, spec);
  set_scales(spec);
  spec.norms_outputs = true;
  config.keep([&] {
    const double scalar = config.find_number("query_pre_attn_scalar", 1e-6, 1e12).value_or(256.0);
    spec.attention_scale = static_cast<float>(1.0 / std::sqrt(scalar));
  });
}

}  // namespace pagedinfer
