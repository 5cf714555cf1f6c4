#pragma once

#include <optional>

#include "io/json_file.h"
#include "model/model.h"

namespace pagedinfer {

// Fills in `spec` and `names` from config.json. `names` gets the alternatives for the tensors'
// names; the first one that the checkpoint has is used. Complains of settings that this
// implementation of the family does not support, and of fields that cannot be read. If `config`
// keeps problems, the values that they leave unknown are 0, empty or kUnknownWindow.
using ReadFamily = void (*)(const JsonObject& config, ModelSpec& spec,
                            std::vector<TensorNames>& names);

// The family that config.json names in "architectures" or, without that, in "model_type". If it is
// not supported, throws Error naming it and the supported ones.
ReadFamily find_family(const JsonObject& config);

// As find_family(), by the given value of "model_type".
ReadFamily find_family_of_type(const JsonObject& config, std::string_view model_type);

// Values of fields that config.json lacks: the defaults of transformers' config classes.
struct ConfigDefaults {
  int hidden = 4096, vocab = 0, intermediate = 0, max_positions = 0;
  int layers = 32, heads = 32;
  int kv_heads = 0;  // 0: as many as heads
  int head_dim = 0;  // 0: hidden / heads
  bool tied_embeddings = false;
  std::optional<TokenId> eos_token = {};
  double norm_eps = 1e-6;
};

// Reads the fields that all families share: sizes, layers, norm_eps, tied embeddings,
// end-of-sequence tokens. Complains of sizes that contradict each other: they become 0.
void read_sizes(const JsonObject& config, const ConfigDefaults& defaults, ModelSpec& spec);

// Replaces the end-of-sequence tokens with "eos_token_id", a number or a list, if it is there.
void read_eos_tokens(const JsonObject& from, ModelSpec& spec);

// Complains if the field is there and names another activation, by none of the names that
// transformers has for this one, and not by `also`.
void expect_activation(const JsonObject& config, std::string_view key, Activation expected,
                       std::string_view also = "");

// Complains if the field is true.
void refuse(const JsonObject& config, std::string_view key);

// "attention_bias": of q, k, v and the output. "mlp_bias": of gate, up and down.
void read_attention_bias(const JsonObject& config, ModelSpec& spec);
void read_mlp_bias(const JsonObject& config, ModelSpec& spec);

// A number that others are multiplied by or limited to; `fallback` if it is absent.
float read_multiplier(const JsonObject& config, std::string_view key, double fallback);

// Complains if "is_causal" is false.
void refuse_unless_causal(const JsonObject& config);

// The window of a layer, if a field that decides it cannot be read.
constexpr int kUnknownWindow = -1;

// "sliding_window" in positions: 0 if it is null, `absent` if there is none, nullopt if it cannot
// be read.
std::optional<int> read_window(const JsonObject& config, int absent);

// All layers slide but each `interval`-th one. REQUIRES: the sizes are read, interval > 0.
std::vector<bool> all_but_each(int64_t interval, const ModelSpec& spec);

// Sets the windows of the sliding layers and returns which layers slide. "layer_types" decides
// this or, without that field, `otherwise`. Complains if a layer slides and `window` is 0. A window
// that is not known becomes kUnknownWindow.
SlidingLayers read_windows(const JsonObject& config, const SlidingLayers& otherwise,
                           std::optional<int> window, ModelSpec& spec);

// Sets the windows of a family in which either all layers slide or none does; a window of 0 means
// none. Complains if "layer_types" says otherwise.
void read_equal_windows(const JsonObject& config, std::optional<int> window, ModelSpec& spec);

// Sets the windows of Qwen: without "layer_types", the layers from "max_window_layers" on slide if
// "use_sliding_window" is true. If it is not, there is no window. `first_layer` stands for an
// absent "max_window_layers".
void read_upper_windows(const JsonObject& config, ModelSpec& spec, int first_layer = 28);

// What all Gemmas from Gemma 2 on have in common: sizes, activation, biases, norms, and the scales
// of embedding and scores. They differ in the defaults of `vocab` and `max_positions`.
void read_newer_gemma(const JsonObject& config, int vocab, int max_positions, ModelSpec& spec);

// What OLMo 2 and 3 have in common: sizes, activation, biases and norms.
void read_newer_olmo(const JsonObject& config, ModelSpec& spec);

constexpr int kMaxExpertWidth = 1 << 24;

// The fields of experts, which families call differently, and what stands for absent ones.
struct ExpertFields {
  std::string_view count_key = "num_experts", width_key = "moe_intermediate_size";
  int count = 0, per_token = 0;
  int width = 0;  // 0: the width of the MLP
};

// Reads how many experts all layers have, by either name, how many of them a token has
// ("num_experts_per_tok") and their width. Complains if there are fewer than a token needs.
void read_experts(const JsonObject& config, const ExpertFields& fields, ModelSpec& spec);

// Gives experts to each "decoder_sparse_step"-th layer that is not one of "mlp_only_layers".
void read_sparse_layers(const JsonObject& config, ModelSpec& spec);

// The names of experts in a layer.
struct ExpertNaming {
  std::string_view block = "mlp";
  std::string_view router = "gate.weight", router_bias = "gate.bias";
  std::string_view module = "mlp.experts";  // LayerNames::expert_module, below the layer
  // Below block.experts.NUMBER; or, where the experts are stacked, below the block.
  std::string_view gate = "gate_proj.weight", up = "up_proj.weight", down = "down_proj.weight";
  std::string_view gate_bias = "", up_bias = "", down_bias = "";
  ExpertStorage storage = ExpertStorage::kEach;
  // Of the shared expert, below the layer, and of its gate, below the block.
  std::string_view shared_gate_proj = "", shared_up_proj = "", shared_down_proj = "";
  std::string_view shared_gate = "";
};

// The same for checkpoints that have the experts as transformers has them in memory.
ExpertNaming stacked(ExpertNaming naming);

// Adds them to the names of all layers with experts, below the root that usual_names() got.
void add_expert_names(std::string_view root, const ExpertNaming& naming, const ModelSpec& spec,
                      TensorNames& names);

// The names that most families give their tensors. All names but the name of the output begin with
// `root` ("model."). With norms of outputs, post_attention_layernorm is the norm of attention's
// output; in other families it is the norm of the MLP's input.
TensorNames usual_names(std::string_view root, std::string_view output, const ModelSpec& spec);

// Where a checkpoint of a model for pictures has its text model.
enum class TextPlace : uint8_t { kInside, kBeside, kOnTop };

// A model for pictures whose text model is run alone.
struct Wrapper {
  // Reads "text_config". Null: the family that its "model_type" names, one of `text_types`. The
  // first of these stands for an absent one.
  ReadFamily read_text = nullptr;
  std::vector<std::string_view> text_types = {};
  bool may_be_flat = false;  // without "text_config", config.json itself has its fields
  bool tied_embeddings = false;
  TextPlace published = TextPlace::kInside;  // where published checkpoints have the text model
  std::vector<std::string_view> parts = {};  // the prefixes of the modules that are not run
  // Of the text model, if it has any: what published checkpoints have, then what others may have.
  std::vector<ExpertNaming> experts = {ExpertNaming()};
};

// Reads the text model of `wrapper`. `names` gets all places of the text model, the published one
// first. REQUIRES: the family of the text model gives its tensors the usual names.
void read_wrapped(const JsonObject& config, const Wrapper& wrapper, ModelSpec& spec,
                  std::vector<TensorNames>& names);

// The families and the models for pictures around them, each family in a file of its own.
void read_llama(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_mistral(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_ministral3(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_qwen2(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_qwen3(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_qwen2_moe(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_qwen3_moe(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_mixtral(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_olmoe(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_granite_moe(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_gpt_oss(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_smollm3(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_granite(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_olmo2(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_olmo3(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_exaone4(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_phi3(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_glm4(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_gemma(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_gemma2(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_gemma3(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names);
void read_gemma3_wrapper(const JsonObject& config, ModelSpec& spec,
                         std::vector<TensorNames>& names);
void read_mistral3_wrapper(const JsonObject& config, ModelSpec& spec,
                           std::vector<TensorNames>& names);
void read_qwen2_5_vl_wrapper(const JsonObject& config, ModelSpec& spec,
                             std::vector<TensorNames>& names);
void read_qwen3_vl_wrapper(const JsonObject& config, ModelSpec& spec,
                           std::vector<TensorNames>& names);
void read_qwen3_vl_moe_wrapper(const JsonObject& config, ModelSpec& spec,
                               std::vector<TensorNames>& names);

}  // namespace pagedinfer
