#include "model/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/shortened.h"

namespace pagedinfer {
namespace {

struct Family {
  std::string_view architecture, model_type;
  ReadFamily read;
};

constexpr Family kFamilies[] = {
    {"LlamaForCausalLM", "llama", read_llama},
    {"MistralForCausalLM", "mistral", read_mistral},
    {"MinistralForCausalLM", "ministral", read_mistral},
    {"Qwen2ForCausalLM", "qwen2", read_qwen2},
    {"Qwen3ForCausalLM", "qwen3", read_qwen3},
    {"Gemma3ForCausalLM", "gemma3_text", read_gemma3},
    {"Gemma3ForConditionalGeneration", "gemma3", read_gemma3_multimodal},
};

// A size above these is an error in the file. The bounds also keep products of two sizes far below
// 2^63.
constexpr int kMaxSize = 1 << 24;
constexpr int kMaxLayers = 1 << 12;
constexpr int kMaxHeadDim = 1 << 16;
constexpr int kMaxPositions = 1 << 30;

// True if the field is there and is null.
bool is_null(const JsonObject& config, std::string_view key) {
  return std::ranges::any_of(config.fields(), [&](const auto& field) {
    return field.key == key && field.value.is_null();
  });
}

}  // namespace

ReadFamily find_family(const JsonObject& config) {
  const std::vector<std::string> architectures = config.strings("architectures");
  const std::string model_type = config.find_string("model_type").value_or("");
  const bool by_type = architectures.empty();
  std::string supported;
  for (const Family& family : kFamilies) {
    if (by_type ? family.model_type == model_type : family.architecture == architectures[0]) {
      return family.read;
    }
    supported += fmt::format("{}{}", supported.empty() ? "" : ", ",
                             by_type ? family.model_type : family.architecture);
  }
  config.fail(by_type ? "model_type" : "architectures",
              fmt::format("is '{}', which is not supported; supported are: {}",
                          shortened(by_type ? model_type : architectures[0]), supported));
}

void read_sizes(const JsonObject& config, const ConfigDefaults& defaults, ModelSpec& spec) {
  const auto size = [&](std::string_view key, int fallback, int max = kMaxSize) {
    return static_cast<int>(config.find_integer(key, 1, max).value_or(fallback));
  };
  spec.hidden = size("hidden_size", defaults.hidden);
  spec.vocab = size("vocab_size", defaults.vocab);
  spec.intermediate = size("intermediate_size", defaults.intermediate);
  spec.max_positions = size("max_position_embeddings", defaults.max_positions, kMaxPositions);
  spec.layers.assign(size("num_hidden_layers", defaults.layers, kMaxLayers), {});

  spec.heads = size("num_attention_heads", defaults.heads);
  const bool as_many = is_null(config, "num_key_value_heads") || defaults.kv_heads == 0;
  spec.kv_heads = size("num_key_value_heads", as_many ? spec.heads : defaults.kv_heads);
  if (spec.heads % spec.kv_heads != 0) {
    config.refuse("num_key_value_heads", std::to_string(spec.kv_heads),
                  fmt::format("a divisor of the {} heads", spec.heads));
  }
  if (!config.has("head_dim") && defaults.head_dim == 0 && spec.hidden % spec.heads != 0) {
    config.refuse("num_attention_heads", std::to_string(spec.heads),
                  fmt::format("a divisor of hidden_size {}", spec.hidden));
  }
  spec.head_dim = size("head_dim", defaults.head_dim > 0 ? defaults.head_dim
                                                         : std::max(1, spec.hidden / spec.heads));
  if (spec.head_dim > kMaxHeadDim) {
    config.refuse("head_dim", std::to_string(spec.head_dim),
                  fmt::format("at most {}", kMaxHeadDim));
  }
  if (spec.head_dim % 2 != 0) {
    config.refuse("head_dim", std::to_string(spec.head_dim), "an even number");
  }
  if (int64_t{spec.heads} * spec.head_dim > kMaxSize) {
    config.refuse("head_dim", fmt::format("{} in {} heads", spec.head_dim, spec.heads),
                  fmt::format("at most {} together", kMaxSize));
  }

  spec.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.head_dim)));
  spec.norm_eps = static_cast<float>(config.find_number("rms_norm_eps", 0.0, 1.0).value_or(1e-6));
  spec.tied_embeddings = config.find_bool("tie_word_embeddings").value_or(defaults.tied_embeddings);
  const bool has_eos = defaults.eos_token && *defaults.eos_token < spec.vocab;
  if (has_eos && !is_null(config, "eos_token_id")) spec.eos_tokens = {*defaults.eos_token};
}

void read_eos_tokens(const JsonObject& from, ModelSpec& spec) {
  const std::vector<int64_t> tokens = from.one_or_more("eos_token_id", 0, spec.vocab - 1);
  if (!tokens.empty()) spec.eos_tokens.assign(tokens.begin(), tokens.end());
}

void expect(const JsonObject& config, std::string_view key, std::string_view value) {
  const std::string found = config.find_string(key).value_or(std::string(value));
  if (found != value) config.complain(key, shortened(found), value);
}

void refuse(const JsonObject& config, std::string_view key) {
  if (config.find_bool(key).value_or(false)) {
    config.complain(key, "is true, which is not supported");
  }
}

int read_window(const JsonObject& config, int absent) {
  if (is_null(config, "sliding_window")) return 0;
  return static_cast<int>(config.find_integer("sliding_window", 1, kMaxPositions).value_or(absent));
}

void refuse_unless_causal(const JsonObject& config) {
  if (!config.find_bool("is_causal").value_or(true)) {
    config.complain("is_causal", "is not true, which is not supported");
  }
}

std::vector<bool> read_layer_types(const JsonObject& config, size_t num_layers) {
  std::vector<bool> slides;
  for (const std::string& type : config.strings("layer_types")) {
    const bool is_full = type == "full_attention" || type == "attention";  // an older name
    if (!is_full && type != "sliding_attention") {
      config.complain("layer_types", shortened(type), "full_attention or sliding_attention");
    }
    slides.push_back(type == "sliding_attention");
  }
  if (config.has("layer_types") && slides.size() != num_layers) {
    config.refuse("layer_types", fmt::format("{} entries", slides.size()),
                  fmt::format("{}, as many as layers", num_layers));
  }
  return slides;
}

void set_windows(const JsonObject& config, const std::vector<bool>& slides, int window,
                 ModelSpec& spec) {
  for (size_t i = 0; i < slides.size(); ++i) {
    if (!slides[i]) continue;
    if (window == 0) config.fail("sliding_window", "is off, expected one for layers that slide");
    spec.layers[i].window = window;
  }
}

void read_upper_windows(const JsonObject& config, ModelSpec& spec) {
  const bool is_on = config.find_bool("use_sliding_window").value_or(false);
  const int window = is_on ? read_window(config, 4096) : 0;
  std::vector<bool> slides = read_layer_types(config, spec.layers.size());
  const int64_t first = config.find_integer("max_window_layers", 0, kMaxLayers).value_or(28);
  for (int64_t i = 0; slides.size() < spec.layers.size(); ++i) {
    slides.push_back(window > 0 && i >= first);
  }
  set_windows(config, slides, window, spec);
}

TensorNames usual_names(std::string_view root, std::string_view output, const ModelSpec& spec) {
  const auto below_root = [&](std::string_view part) {
    return fmt::format("{}{}.weight", root, part);
  };
  TensorNames names = {.embedding = below_root("embed_tokens"),
                       .final_norm = below_root("norm"),
                       .output = std::string(output)};
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const auto in_layer = [&](std::string_view part, std::string_view what = "weight") {
      return fmt::format("{}layers.{}.{}.{}", root, i, part, what);
    };
    names.layers.push_back({
        .attention_norm = in_layer("input_layernorm"),
        .q = in_layer("self_attn.q_proj"),
        .k = in_layer("self_attn.k_proj"),
        .v = in_layer("self_attn.v_proj"),
        .attention_out = in_layer("self_attn.o_proj"),
        .mlp_norm = in_layer("post_attention_layernorm"),
        .gate = in_layer("mlp.gate_proj"),
        .up = in_layer("mlp.up_proj"),
        .down = in_layer("mlp.down_proj"),
        .q_bias = in_layer("self_attn.q_proj", "bias"),
        .k_bias = in_layer("self_attn.k_proj", "bias"),
        .v_bias = in_layer("self_attn.v_proj", "bias"),
        .q_norm = in_layer("self_attn.q_norm"),
        .k_norm = in_layer("self_attn.k_norm"),
    });
    if (!spec.sandwich_norm) continue;
    LayerNames& layer = names.layers.back();
    layer.attention_out_norm = layer.mlp_norm;
    layer.mlp_norm = in_layer("pre_feedforward_layernorm");
    layer.mlp_out_norm = in_layer("post_feedforward_layernorm");
  }
  return names;
}

}  // namespace pagedinfer
