// Mistral: all layers have a sliding window or none has. Ministral: those that "layer_types" names.
// Mistral 3: one of them, or a later family, inside a model for pictures.
#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {

void read_mistral(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_sizes(config,
             {.vocab = 32000,
              .intermediate = 14336,
              .max_positions = 131072,
              .kv_heads = 8,
              .eos_token = 2},
             spec);
  expect_activation(config, "hidden_act", Activation::kSilu);
  read_attention_bias(config, spec);
  read_mlp_bias(config, spec);
  read_rope(config, {}, spec);
  const std::optional<int> window = read_window(config, 4096);
  read_windows(config, std::vector<bool>(spec.layers.size(), window.value_or(0) > 0), window, spec);
  names = {usual_names("model.", "lm_head.weight", spec)};
}

void read_mistral3_wrapper(const JsonObject& config, ModelSpec& spec,
                           std::vector<TensorNames>& names) {
  read_wrapped(config,
               {.text_types = {"mistral", "ministral", "ministral3"},
                .tied_embeddings = true,
                .published = TextPlace::kBeside,
                .parts = {"vision_tower.", "multi_modal_projector."}},
               spec, names);
}

}  // namespace pagedinfer
