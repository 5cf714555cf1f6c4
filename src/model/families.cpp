#include "model/families.h"

#include <fmt/format.h>

#include <cmath>

namespace pagedinfer {
namespace {

struct Family {
  std::string_view architecture, model_type;
  ReadFamily read;
};

constexpr Family kFamilies[] = {
    {"LlamaForCausalLM", "llama", read_llama},
};

// Beyond these a size is a mistake. They also keep every product of two sizes far below 2^63.
constexpr int kMaxSize = 1 << 24;
constexpr int kMaxLayers = 1 << 12;
constexpr int kMaxPositions = 1 << 30;

}  // namespace

ReadFamily find_family(const JsonObject& config) {
  const std::vector<std::string> architectures = config.strings("architectures");
  const std::string model_type = config.find_string("model_type").value_or("");
  const bool by_type = architectures.empty();
  std::string supported;
  for (const Family& family : kFamilies) {
    if (by_type ? family.model_type == model_type : family.architecture == architectures[0])
      return family.read;
    supported += fmt::format("{}{}", supported.empty() ? "" : ", ",
                             by_type ? family.model_type : family.architecture);
  }
  config.fail(by_type ? "model_type" : "architectures",
              fmt::format("is '{}', which is not supported; supported are: {}",
                          by_type ? model_type : architectures[0], supported));
}

void read_sizes(const JsonObject& config, ModelSpec& spec) {
  const auto size = [&](std::string_view key) {
    return static_cast<int>(config.integer(key, 1, kMaxSize));
  };
  spec.hidden = size("hidden_size");
  spec.vocab = size("vocab_size");
  spec.intermediate = size("intermediate_size");
  spec.max_positions =
      static_cast<int>(config.integer("max_position_embeddings", 1, kMaxPositions));
  spec.layers.assign(config.integer("num_hidden_layers", 1, kMaxLayers), {});

  spec.heads = size("num_attention_heads");
  spec.kv_heads = static_cast<int>(
      config.find_integer("num_key_value_heads", 1, kMaxSize).value_or(spec.heads));
  if (spec.heads % spec.kv_heads != 0)
    config.fail("num_key_value_heads", fmt::format("is {}, expected a divisor of the {} heads",
                                                   spec.kv_heads, spec.heads));
  const auto head_dim = config.find_integer("head_dim", 1, kMaxSize);
  if (!head_dim && spec.hidden % spec.heads != 0)
    config.fail("num_attention_heads", fmt::format("is {}, expected a divisor of hidden_size {}",
                                                   spec.heads, spec.hidden));
  spec.head_dim = static_cast<int>(head_dim.value_or(spec.hidden / spec.heads));
  if (spec.head_dim % 2 != 0)
    config.fail("head_dim", fmt::format("is {}, expected an even number", spec.head_dim));
  if (int64_t{spec.heads} * spec.head_dim > kMaxSize)
    config.fail("head_dim", fmt::format("is {} in {} heads, expected at most {} together",
                                        spec.head_dim, spec.heads, kMaxSize));

  spec.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.head_dim)));
  spec.norm_eps = static_cast<float>(config.find_number("rms_norm_eps", 0.0, 1.0).value_or(1e-6));
  spec.tied_embeddings = config.find_bool("tie_word_embeddings").value_or(false);
}

void refuse(const JsonObject& config, std::string_view key) {
  if (config.find_bool(key).value_or(false)) config.fail(key, "is true, which is not supported");
}

}  // namespace pagedinfer
