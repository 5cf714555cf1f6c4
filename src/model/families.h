#pragma once

#include <optional>

#include "io/json_file.h"
#include "model/model.h"

namespace pagedinfer {

// Fills in `spec` and `names` from config.json. `names` is what the tensors may be called: the
// first that the files have. Throws Error for what the family, as we compute it, does not cover.
using ReadFamily = void (*)(const JsonObject& config, ModelSpec& spec,
                            std::vector<TensorNames>& names);

// The family that config.json names in "architectures" (or, without that, in "model_type").
// Throws Error naming it and the supported ones if it is none of them.
ReadFamily find_family(const JsonObject& config);

// What a field means that config.json lacks: the defaults of transformers' config classes.
struct ConfigDefaults {
  int hidden = 4096, vocab = 0, intermediate = 0, max_positions = 0;
  int layers = 32, heads = 32;
  int kv_heads = 0;  // 0: as many as heads
  int head_dim = 0;  // 0: hidden / heads
  bool tied_embeddings = false;
  std::optional<TokenId> eos_token = {};
};

// The fields that all families share: sizes, layers, norm_eps, tied embeddings, the end of
// sequence. Throws Error for sizes that make no sense together.
void read_sizes(const JsonObject& config, const ConfigDefaults& defaults, ModelSpec& spec);

// "eos_token_id", a number or a list, where there is one.
void read_eos_tokens(const JsonObject& from, ModelSpec& spec);

// Throws Error unless the field, if there is one, has this value.
void expect(const JsonObject& config, std::string_view key, std::string_view value);

// Throws Error unless the field is absent, null or false.
void refuse(const JsonObject& config, std::string_view key);

// Throws Error if a position may see later ones.
void refuse_unless_causal(const JsonObject& config);

// "sliding_window": 0 where it is null, `absent` where there is none.
int read_window(const JsonObject& config, int absent);

// Which layers slide according to "layer_types"; empty where that is absent.
std::vector<bool> read_layer_types(const JsonObject& config, size_t num_layers);

// The window of the layers that slide. Throws Error if some do and `window` is 0.
void set_windows(const JsonObject& config, const std::vector<bool>& slides, int window,
                 ModelSpec& spec);

// Windows from layer "max_window_layers" on, or as "layer_types" says, and only where
// "use_sliding_window" is true.
void read_upper_windows(const JsonObject& config, ModelSpec& spec);

// What most families call their tensors, layers below `root` ("model.").
TensorNames usual_names(std::string_view root, std::string_view output, const ModelSpec& spec);

// One line for each family, each with a file of its own.
void read_llama(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_mistral(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_qwen2(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_qwen3(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_gemma3(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_gemma3_multimodal(const JsonObject& config, ModelSpec& spec,
                            std::vector<TensorNames>& names);

}  // namespace pagedinfer
