#include "model/gguf/gguf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "core/refusal.h"
#include "model/gguf/gguf_keys.h"
#include "model/quantized/gguf_blocks.h"
#include "model/quantized/stored_part.h"

namespace pagedinfer {
namespace {

// Positive integers, which a file must have.
constexpr GgufField kGgufSizes[] = {
    {"block_count", "num_hidden_layers"},
    {"embedding_length", "hidden_size"},
    {"attention.head_count", "num_attention_heads"},
    {"context_length", "max_position_embeddings"},
};
// Fields that are absent where the file has no number.
constexpr GgufField kGgufNumbers[] = {
    {"feed_forward_length", "intermediate_size"},
    {"attention.key_length", "head_dim"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"rope.freq_base_swa", "rope_local_base_freq"},
    {"attention.scale", "attention_multiplier"},
    {"embedding_scale", "embedding_multiplier"},
    {"residual_scale", "residual_multiplier"},
    {"logit_scale", "logits_scaling"},
};
constexpr const char* kGgufEnds[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                     "tokenizer.ggml.eom_token_id"};
// Tokens that end an answer in any vocabulary. The converter names one end only, which for Gemma
// and Phi-3 is not that of a turn. In gpt-oss <|end|> ends a message, and others follow it.
constexpr std::string_view kGgufEndTexts[] = {"<|eot_id|>",      "<|eom_id|>",    "<|im_end|>",
                                              "<|end|>",         "<end_of_turn>", "<|endoftext|>",
                                              "<|end_of_text|>", "<|return|>",    "<|call|>"};
constexpr std::string_view kEndOfMessage = "<|end|>", kEndOfHarmony = "<|return|>";

const StoredTensor* tensor_of_file(const GgufFile& file, std::string_view name) {
  const auto found = file.tensors().find(name);
  return found == file.tensors().end() ? nullptr : &found->second;
}

// The numbers of a tensor of float32; empty: there is none.
std::vector<float> rope_factors(const GgufFile& file, std::string_view name) {
  const StoredTensor* const tensor = tensor_of_file(file, name);
  if (tensor == nullptr) return {};
  if (tensor->type != "F32") {
    throw Error(fmt::format("{}: {}", tensor->file,
                            refusal(fmt::format("tensor '{}'", name), tensor->type, "F32")));
  }
  std::vector<float> numbers(tensor->bytes.size() / sizeof(float));
  if (!numbers.empty()) std::memcpy(numbers.data(), tensor->bytes.data(), tensor->bytes.size());
  return numbers;
}

// The tokens with the text of an end.
std::vector<int64_t> spelled_ends(const JsonObject& metadata) {
  const std::vector<std::string> tokens = metadata.strings("tokenizer.ggml.tokens");
  const auto find = [&](std::string_view text) { return std::ranges::find(tokens, text); };
  const bool is_harmony = find(kEndOfHarmony) != tokens.end();
  std::vector<int64_t> ends;
  for (const std::string_view text : kGgufEndTexts) {
    const auto found = find(text);
    if (found == tokens.end() || (is_harmony && text == kEndOfMessage)) continue;
    ends.push_back(found - tokens.begin());
  }
  return ends;
}

// The first size of the embedding: the file may have fewer rows than its metadata say.
void write_vocabulary(const GgufFile& file, const GgufKeys& keys, JsonWriter& config) {
  const StoredTensor* const embedding = tensor_of_file(file, "token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    keys.metadata().refuse("tensor 'token_embd.weight'",
                           embedding == nullptr ? "" : "another shape", "a matrix");
  }
  config.field("vocab_size", embedding->shape.front());
  config.field("tie_word_embeddings", tensor_of_file(file, "output.weight") == nullptr);
  const int64_t last = embedding->shape.front() - 1;
  std::vector<int64_t> ends;
  const auto add = [&](int64_t token) {
    if (token <= last && std::ranges::find(ends, token) == ends.end()) ends.push_back(token);
  };
  for (const char* const key : kGgufEnds) {
    if (const auto token = keys.metadata().find_integer(key, 0, last)) add(*token);
  }
  for (const int64_t token : spelled_ends(keys.metadata())) add(token);
  if (!ends.empty()) config.field("eos_token_id", ends);
}

void write_yarn(const GgufKeys& keys, JsonWriter& config) {
  // An absent one has the value that the model of transformers takes.
  const auto copy = [&](std::string_view key, std::string_view field) {
    if (const auto number = keys.find_number(key)) config.field(field, *number);
  };
  copy("rope.scaling.yarn_beta_fast", "beta_fast");
  copy("rope.scaling.yarn_beta_slow", "beta_slow");
  copy("rope.scaling.yarn_attn_factor", "attention_factor");
  if (const auto multiplier = keys.find_number("rope.scaling.yarn_log_multiplier")) {
    config.field("mscale", *multiplier).field("mscale_all_dim", *multiplier);
  }
  copy("attention.temperature_scale", "llama_4_scaling_beta");
  if (keys.architecture().has_exact_yarn) config.field("truncate", false);
}

void write_rope(const GgufFile& file, const GgufKeys& keys, JsonWriter& config) {
  // Older files have another key for the factor, and no type.
  auto factor = keys.find_number("rope.scaling.factor");
  if (!factor) factor = keys.find_number("rope.scale_linear");
  const bool is_scaled = factor.value_or(0) != 0 && factor != 1.0;
  const std::string type =
      keys.find_string("rope.scaling.type").value_or(is_scaled ? "linear" : "none");
  const std::vector<float> factors = rope_factors(file, "rope_freqs.weight");
  const std::vector<float> shorter = rope_factors(file, "rope_factors_short.weight");
  const std::vector<float> longer = rope_factors(file, "rope_factors_long.weight");
  const auto trained = keys.find_integer("rope.scaling.original_context_length");
  if (!shorter.empty() && trained) config.field("original_max_position_embeddings", *trained);
  if (const auto rotated = keys.find_integer("rope.dimension_count")) {
    const int64_t head_dim = keys.head_dim();
    if (*rotated > head_dim) {
      keys.metadata().refuse(keys.key("rope.dimension_count"), std::to_string(*rotated),
                             fmt::format("at most {}, the length of keys", head_dim));
    }
    config.field("partial_rotary_factor", double(*rotated) / double(head_dim));
  }
  if (type == "none" && factors.empty() && shorter.empty()) return;
  config.key("rope_scaling").begin_object();
  if (!shorter.empty() || !factors.empty()) {
    // One factor for each frequency, in short and in long runs.
    config.field("rope_type", "longrope");
    config.field("short_factor", shorter.empty() ? factors : shorter);
    config.field("long_factor", shorter.empty() ? factors : longer);
    config.field("attention_factor", keys.find_number("rope.scaling.attn_factor").value_or(1.0));
  } else {
    config.field("rope_type", type);
    if (factor) config.field("factor", *factor);
    if (trained) config.field("original_max_position_embeddings", *trained);
    if (type == "yarn") write_yarn(keys, config);
  }
  config.end_object();
}

// How the tensors differ from those of transformers.
void write_storage(const GgufFile& file, const GgufKeys& keys, JsonWriter& config) {
  config.key("gguf").begin_object();
  config.field("turns_heads", keys.architecture().turns_heads);
  config.field("adds_to_norms", keys.architecture().adds_to_norms);
  config.end_object();
  std::set<std::string> types;
  for (const auto& [name, tensor] : file.tensors()) {
    if (is_float(tensor)) continue;
    if (find_block_type(tensor.type) == nullptr) {
      throw Error(fmt::format(
          "{}: {}", tensor.file,
          refusal(fmt::format("the type of tensor '{}'", shortened(name)), tensor.type,
                  fmt::format("{}, {}", fmt::join(kFloatTypes, ", "), known_block_types()))));
    }
    types.insert(tensor.type);
  }
  if (types.empty()) return;
  config.key("quantization_config").begin_object().field("quant_method", "gguf_blocks");
  config.field("types", std::vector(types.begin(), types.end())).end_object();
}

// What llama.cpp requires of every file: an epsilon, and values as long as keys.
void check_attention(const GgufKeys& keys) {
  constexpr std::string_view kEpsilon = "attention.layer_norm_rms_epsilon",
                             kValue = "attention.value_length";
  if (!keys.has(kEpsilon)) keys.metadata().refuse(keys.key(kEpsilon), "", "a number");
  const int64_t head_dim = keys.head_dim();
  if (const int64_t length = keys.find_integer(kValue).value_or(head_dim); length != head_dim) {
    keys.metadata().refuse(keys.key(kValue), std::to_string(length),
                           fmt::format("{}, the length of keys", head_dim));
  }
}

// Writes a number unless it is 0 or absent, as an integer if it is one.
void write_number(const GgufKeys& keys, const GgufField& row, JsonWriter& config) {
  if (const auto integer = keys.find_integer(row.key)) {
    if (*integer > 0) config.field(row.field, *integer);
  } else if (const auto number = keys.find_number(row.key); number.value_or(0) != 0) {
    config.field(row.field, *number);
  }
}

}  // namespace

std::string gguf_config(const GgufFile& file) {
  const GgufKeys keys(file);
  const GgufArchitecture& architecture = keys.architecture();
  std::string text;
  JsonWriter config(text);
  config.begin_object();
  if (!architecture.model.empty()) {
    config.key("architectures").begin_array().value(architecture.model).end_array();
  }
  for (const GgufField& row : kGgufSizes) config.field(row.field, keys.integer(row.key));
  check_attention(keys);
  config.field("num_key_value_heads",
               keys.find_integer("attention.head_count_kv").value_or(keys.heads()));
  config.field("rope_theta", keys.find_number("rope.freq_base").value_or(10000.0));
  for (const GgufField& row : kGgufNumbers) write_number(keys, row, config);
  for (const GgufField& row : architecture.fields) write_number(keys, row, config);
  config.field("attention_bias", tensor_of_file(file, "blk.0.attn_q.bias") != nullptr);
  config.field("mlp_bias", tensor_of_file(file, "blk.0.ffn_up.bias") != nullptr);
  write_vocabulary(file, keys, config);
  write_rope(file, keys, config);
  if (architecture.write_more != nullptr) architecture.write_more(keys, config);
  write_storage(file, keys, config);
  config.end_object();
  return text;
}

}  // namespace pagedinfer
