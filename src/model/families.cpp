#include "model/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/refusal.h"

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
    {"Ministral3ForCausalLM", "ministral3", read_ministral3},
    {"Qwen2ForCausalLM", "qwen2", read_qwen2},
    {"Qwen3ForCausalLM", "qwen3", read_qwen3},
    {"Qwen2MoeForCausalLM", "qwen2_moe", read_qwen2_moe},
    {"Qwen3MoeForCausalLM", "qwen3_moe", read_qwen3_moe},
    {"MixtralForCausalLM", "mixtral", read_mixtral},
    {"OlmoeForCausalLM", "olmoe", read_olmoe},
    {"GraniteMoeForCausalLM", "granitemoe", read_granite_moe},
    {"GraniteMoeSharedForCausalLM", "granitemoeshared", read_granite_moe},
    {"GptOssForCausalLM", "gpt_oss", read_gpt_oss},
    {"SmolLM3ForCausalLM", "smollm3", read_smollm3},
    {"GraniteForCausalLM", "granite", read_granite},
    {"Olmo2ForCausalLM", "olmo2", read_olmo2},
    {"Olmo3ForCausalLM", "olmo3", read_olmo3},
    {"Exaone4ForCausalLM", "exaone4", read_exaone4},
    {"Phi3ForCausalLM", "phi3", read_phi3},
    {"Glm4ForCausalLM", "glm4", read_glm4},
    {"GemmaForCausalLM", "gemma", read_gemma},
    {"Gemma2ForCausalLM", "gemma2", read_gemma2},
    {"Gemma3ForCausalLM", "gemma3_text", read_gemma3},
    {"Gemma3ForConditionalGeneration", "gemma3", read_gemma3_wrapper},
    {"Mistral3ForConditionalGeneration", "mistral3", read_mistral3_wrapper},
    {"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", read_qwen2_5_vl_wrapper},
    {"Qwen3VLForConditionalGeneration", "qwen3_vl", read_qwen3_vl_wrapper},
    {"Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe", read_qwen3_vl_moe_wrapper},
};

// The names of activations in transformers. The first of each is the usual one; those of the tanh
// formula differ in how it is computed there.
constexpr std::pair<std::string_view, Activation> kActivations[] = {
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu_accurate", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh},
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_python_tanh", Activation::kGeluTanh},
};

// A size above these is an error in the file. The bounds also keep products of two sizes far below
// 2^63.
constexpr int kMaxSize = 1 << 24;
constexpr int kMaxLayers = 1 << 12;
constexpr int kMaxHeadDim = 1 << 16;
constexpr int kMaxPositions = 1 << 30;
constexpr std::string_view kFullLayer = "full_attention", kSlidingLayer = "sliding_attention";

// 0 if the field cannot be read.
int size(const JsonObject& config, std::string_view key, int fallback, int max = kMaxSize) {
  int value = 0;
  config.keep(
      [&] { value = static_cast<int>(config.find_integer(key, 1, max).value_or(fallback)); });
  return value;
}

// The channels of a head; 0 if that is not known.
int read_head_dim(const JsonObject& config, const ConfigDefaults& defaults, const ModelSpec& spec) {
  int channels = 0;
  if (config.has("head_dim") || defaults.head_dim > 0) {
    channels = size(config, "head_dim", defaults.head_dim);
  } else if (spec.hidden > 0 && spec.heads > 0 && spec.hidden % spec.heads == 0) {
    channels = spec.hidden / spec.heads;
  }
  std::string found = std::to_string(channels), expected;
  if (channels > kMaxHeadDim) {
    expected = fmt::format("at most {}", kMaxHeadDim);
  } else if (channels % 2 != 0) {
    expected = "an even number";
  } else if (int64_t{spec.heads} * channels > kMaxSize) {
    found = fmt::format("{} in {} heads", channels, spec.heads);
    expected = fmt::format("at most {} together", kMaxSize);
  }
  if (expected.empty()) return channels;
  config.complain("head_dim", found, expected);
  return 0;
}

void read_heads(const JsonObject& config, const ConfigDefaults& defaults, ModelSpec& spec) {
  spec.heads = size(config, "num_attention_heads", defaults.heads);
  const bool as_many = config.is_null("num_key_value_heads") || defaults.kv_heads == 0;
  spec.kv_heads = size(config, "num_key_value_heads", as_many ? spec.heads : defaults.kv_heads);
  const bool is_divided = spec.kv_heads == 0 || spec.heads % spec.kv_heads == 0;
  if (!is_divided) {
    config.complain("num_key_value_heads", std::to_string(spec.kv_heads),
                    fmt::format("a divisor of the {} heads", spec.heads));
  }
  const bool divides = config.has("head_dim") || defaults.head_dim > 0 || spec.heads == 0 ||
                       spec.hidden % spec.heads == 0;
  if (!divides) {
    config.complain("num_attention_heads", std::to_string(spec.heads),
                    fmt::format("a divisor of hidden_size {}", spec.hidden));
  }
  spec.head_dim = read_head_dim(config, defaults, spec);
  if (!is_divided || !divides) spec.heads = spec.kv_heads = 0;
}

// As "layer_types" says; nullopt if it cannot be read. REQUIRES: it is there.
SlidingLayers read_layer_types(const JsonObject& config, size_t num_layers) {
  std::vector<std::string> types;
  if (!config.keep([&] { types = config.strings("layer_types"); })) return std::nullopt;
  std::vector<bool> slides;
  for (const std::string& type : types) {
    const bool is_full = type == kFullLayer || type == "attention";  // an older name
    if (!is_full && type != kSlidingLayer) {
      config.complain("layer_types", shortened(type),
                      fmt::format("{} or {}", kFullLayer, kSlidingLayer));
    }
    slides.push_back(type == kSlidingLayer);
  }
  if (slides.size() == num_layers) return slides;
  if (num_layers > 0) {
    config.complain("layer_types", counted(std::ssize(slides), "entry", "entries"),
                    fmt::format("{}, as many as layers", num_layers));
  }
  return std::nullopt;
}

// The family with this name, which the field `key` gives.
ReadFamily find_family_named(const JsonObject& config, std::string_view key,
                             std::string_view Family::*name_in, std::string_view name) {
  const Family* const family = std::ranges::find(kFamilies, name, name_in);
  if (family != std::end(kFamilies)) return family->read;
  std::string supported;
  for (const Family& known : kFamilies) {
    supported += fmt::format("{}{}", supported.empty() ? "" : ", ", known.*name_in);
  }
  config.fail(key, fmt::format("is '{}', which is not supported; supported are: {}",
                               shortened(name), supported));
}

}  // namespace

ReadFamily find_family(const JsonObject& config) {
  const std::vector<std::string> architectures = config.strings("architectures");
  if (architectures.empty()) {
    return find_family_of_type(config, config.find_string("model_type").value_or(""));
  }
  return find_family_named(config, "architectures", &Family::architecture, architectures[0]);
}

ReadFamily find_family_of_type(const JsonObject& config, std::string_view model_type) {
  return find_family_named(config, "model_type", &Family::model_type, model_type);
}

void read_sizes(const JsonObject& config, const ConfigDefaults& defaults, ModelSpec& spec) {
  spec.hidden = size(config, "hidden_size", defaults.hidden);
  spec.vocab = size(config, "vocab_size", defaults.vocab);
  spec.intermediate = size(config, "intermediate_size", defaults.intermediate);
  spec.max_positions =
      size(config, "max_position_embeddings", defaults.max_positions, kMaxPositions);
  const int layers = size(config, "num_hidden_layers", defaults.layers, kMaxLayers);
  spec.layers.assign(static_cast<size_t>(layers), {});
  read_heads(config, defaults, spec);

  spec.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.head_dim)));
  config.keep([&] {
    const double eps = config.find_number("rms_norm_eps", 0.0, 1.0).value_or(defaults.norm_eps);
    spec.norm_eps = static_cast<float>(eps);
  });
  config.keep([&] {
    spec.tied_embeddings =
        config.find_bool("tie_word_embeddings").value_or(defaults.tied_embeddings);
  });
  const bool has_eos = defaults.eos_token && *defaults.eos_token < spec.vocab;
  if (has_eos && !config.is_null("eos_token_id")) spec.eos_tokens = {*defaults.eos_token};
}

void read_eos_tokens(const JsonObject& from, ModelSpec& spec) {
  from.keep([&] {
    const std::vector<int64_t> tokens = from.one_or_more("eos_token_id", 0, spec.vocab - 1);
    if (!tokens.empty()) spec.eos_tokens.assign(tokens.begin(), tokens.end());
  });
}

void expect_activation(const JsonObject& config, std::string_view key, Activation expected,
                       std::string_view also) {
  config.keep([&] {
    const std::optional<std::string> found = config.find_string(key);
    if (found && !also.empty() && *found == also) return;
    std::string_view usual;
    for (const auto& [name, activation] : kActivations) {
      if (activation != expected) continue;
      if (!found || *found == name) return;
      if (usual.empty()) usual = name;
    }
    config.complain(key, shortened(*found), usual);
  });
}

void refuse(const JsonObject& config, std::string_view key) {
  config.keep([&] {
    if (!config.find_bool(key).value_or(false)) return;
    config.complain(key, "is true, which is not supported");
  });
}

void read_attention_bias(const JsonObject& config, ModelSpec& spec) {
  config.keep([&] {
    spec.qkv_bias = spec.attention_out_bias = config.find_bool("attention_bias").value_or(false);
  });
}

void read_mlp_bias(const JsonObject& config, ModelSpec& spec) {
  config.keep([&] { spec.mlp_bias = config.find_bool("mlp_bias").value_or(false); });
}

float read_multiplier(const JsonObject& config, std::string_view key, double fallback) {
  double value = fallback;
  config.keep([&] { value = config.find_number(key, 1e-6, 1e6).value_or(fallback); });
  return static_cast<float>(value);
}

void refuse_unless_causal(const JsonObject& config) {
  config.keep([&] {
    if (config.find_bool("is_causal").value_or(true)) return;
    config.complain("is_causal", "is not true, which is not supported");
  });
}

std::optional<int> read_window(const JsonObject& config, int absent) {
  if (config.is_null("sliding_window")) return 0;
  std::optional<int> window;
  config.keep([&] {
    const auto found = config.find_integer("sliding_window", 1, kMaxPositions);
    window = static_cast<int>(found.value_or(absent));
  });
  return window;
}

std::vector<bool> all_but_each(int64_t interval, const ModelSpec& spec) {
  std::vector<bool> slides;
  for (int64_t i = 1; i <= std::ssize(spec.layers); ++i) slides.push_back(i % interval != 0);
  return slides;
}

SlidingLayers read_windows(const JsonObject& config, const SlidingLayers& otherwise,
                           std::optional<int> window, ModelSpec& spec) {
  const SlidingLayers slides =
      config.has("layer_types") ? read_layer_types(config, spec.layers.size()) : otherwise;
  const bool is_off = slides && window == 0 && std::ranges::find(*slides, true) != slides->end();
  if (is_off) config.complain("sliding_window", "is off, expected one for layers that slide");
  const bool is_known = slides && window && !is_off;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (!is_known) spec.layers[i].window = kUnknownWindow;
    if (is_known && (*slides)[i]) spec.layers[i].window = *window;
  }
  return slides;
}

void read_equal_windows(const JsonObject& config, std::optional<int> window, ModelSpec& spec) {
  for (LayerSpec& layer : spec.layers) layer.window = window.value_or(kUnknownWindow);
  if (!window || !config.has("layer_types")) return;
  const SlidingLayers listed = read_layer_types(config, spec.layers.size());
  const bool slide = *window > 0;
  if (!listed || std::ranges::find(*listed, !slide) == listed->end()) return;
  config.complain(
      "layer_types", slide ? kFullLayer : kSlidingLayer,
      fmt::format("{} only: this family's layers {}", slide ? kSlidingLayer : kFullLayer,
                  slide ? "all have the window" : "have no window"));
}

void read_upper_windows(const JsonObject& config, ModelSpec& spec, int first_layer) {
  std::optional<int> window;
  SlidingLayers upper;
  config.keep([&] {
    const bool is_on = config.find_bool("use_sliding_window").value_or(false);
    window = is_on ? read_window(config, 4096) : 0;
  });
  config.keep([&] {
    const int64_t first =
        config.find_integer("max_window_layers", 0, kMaxLayers).value_or(first_layer);
    upper.emplace(spec.layers.size(), false);
    for (size_t i = static_cast<size_t>(first); i < upper->size(); ++i) {
      (*upper)[i] = window.value_or(0) > 0;
    }
  });
  read_windows(config, upper, window, spec);
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
        .q = in_layer("self_attn.q_proj"),
        .k = in_layer("self_attn.k_proj"),
        .v = in_layer("self_attn.v_proj"),
        .attention_out = in_layer("self_attn.o_proj"),
        .gate = in_layer("mlp.gate_proj"),
        .up = in_layer("mlp.up_proj"),
        .down = in_layer("mlp.down_proj"),
        .attention_norm = in_layer("input_layernorm"),
        .mlp_norm = in_layer("post_attention_layernorm"),
        .q_norm = in_layer("self_attn.q_norm"),
        .k_norm = in_layer("self_attn.k_norm"),
        .q_bias = in_layer("self_attn.q_proj", "bias"),
        .k_bias = in_layer("self_attn.k_proj", "bias"),
        .v_bias = in_layer("self_attn.v_proj", "bias"),
        .attention_out_bias = in_layer("self_attn.o_proj", "bias"),
        .sinks = fmt::format("{}layers.{}.self_attn.sinks", root, i),
        .gate_bias = in_layer("mlp.gate_proj", "bias"),
        .up_bias = in_layer("mlp.up_proj", "bias"),
        .down_bias = in_layer("mlp.down_proj", "bias"),
    });
    if (!spec.norms_outputs) continue;
    LayerNames& layer = names.layers.back();
    layer.attention_out_norm = layer.mlp_norm;
    layer.mlp_norm = in_layer("pre_feedforward_layernorm");
    layer.mlp_out_norm = in_layer("post_feedforward_layernorm");
  }
  return names;
}

}  // namespace pagedinfer
