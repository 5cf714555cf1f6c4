#include "text/files/gguf_splits.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/refusal.h"

namespace pagedinfer {
namespace {

constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// They differ in how many digits a word has.
constexpr std::string_view kLlama3Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// They also begin a word at an upper-case letter behind a lower-case one.
constexpr std::string_view kTekkenWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4oWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr GgufSplit kGgufSplits[] = {
    {.name = "gpt-2", .pattern = kGpt2Words},
    {.name = "phi-2", .pattern = kGpt2Words},
    {.name = "exaone4", .pattern = kGpt2Words},
    {.name = "olmo", .pattern = kGpt2Words},
    {.name = "granite-docling", .pattern = kGpt2Words},
    {.name = "starcoder", .pattern = kGpt2Words, .splits_digits = true},
    {.name = "refact", .pattern = kGpt2Words, .splits_digits = true},
    {.name = "command-r", .pattern = kGpt2Words, .splits_digits = true},
    {.name = "smollm", .pattern = kGpt2Words, .splits_digits = true},
    {.name = "exaone", .pattern = kGpt2Words, .splits_digits = true},
    {.name = "llama-bpe", .pattern = kLlama3Words, .ignores_merges = true, .adds_bos = true},
    {.name = "llama3", .pattern = kLlama3Words, .ignores_merges = true, .adds_bos = true},
    {.name = "llama-v3", .pattern = kLlama3Words, .ignores_merges = true, .adds_bos = true},
    {.name = "falcon3", .pattern = kLlama3Words, .ignores_merges = true, .adds_bos = true},
    {.name = "pixtral", .pattern = kLlama3Words, .ignores_merges = true, .adds_bos = true},
    {.name = "dbrx", .pattern = kLlama3Words},
    {.name = "smaug-bpe", .pattern = kLlama3Words},
    {.name = "chatglm-bpe", .pattern = kLlama3Words},
    {.name = "glm4", .pattern = kLlama3Words, .ignores_merges = true},
    {.name = "qwen2", .pattern = kQwen2Words, .composes = true},
    {.name = "deepseek-r1-qwen", .pattern = kQwen2Words, .composes = true},
    {.name = "megrez", .pattern = kQwen2Words, .composes = true},
    {.name = "stablelm2", .pattern = kQwen2Words},
    {.name = "tekken", .pattern = kTekkenWords, .ignores_merges = true, .adds_bos = true},
    {.name = "gpt-4o", .pattern = kGpt4oWords},
    {.name = "kanana2", .pattern = kGpt4oWords},
};

}  // namespace

const GgufSplit& find_split(const JsonObject& metadata, std::string_view key) {
  const std::string name = metadata.find_string(key).value_or("");
  const auto* const found = std::ranges::find(kGgufSplits, name, &GgufSplit::name);
  if (found != std::end(kGgufSplits)) return *found;
  std::string known;
  for (const GgufSplit& split : kGgufSplits) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", split.name);
  }
  metadata.refuse(key, shortened(name), fmt::format("one of {}", known));
}

void write_pre_tokenizer(const GgufSplit& split, JsonWriter& json) {
  json.key("pre_tokenizer").begin_object().field("type", "Sequence");
  json.key("pretokenizers").begin_array();
  if (split.splits_digits) {
    json.begin_object().field("type", "Digits").field("individual_digits", true).end_object();
  }
  json.begin_object().field("type", "Split");
  json.key("pattern").begin_object().field("Regex", split.pattern).end_object();
  json.field("behavior", "Isolated").field("invert", false).end_object();
  json.begin_object().field("type", "ByteLevel").field("add_prefix_space", false);
  json.field("use_regex", false).end_object();
  json.end_array().end_object();
}

}  // namespace pagedinfer
