#include "text/files/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"
#include "core/refusal.h"
#include "text/files/gguf_splits.h"
#include "text/files/spm_model.h"

namespace pagedinfer {
namespace {

constexpr std::string_view kGgufTokens = "tokenizer.ggml.tokens",
                           kGgufTypes = "tokenizer.ggml.token_type",
                           kGgufScores = "tokenizer.ggml.scores",
                           kGgufMerges = "tokenizer.ggml.merges",
                           kGgufModel = "tokenizer.ggml.model", kGgufPre = "tokenizer.ggml.pre",
                           kGgufTemplate = "tokenizer.chat_template",
                           kGgufTemplates = "tokenizer.chat_templates";
constexpr int64_t kMaxTokenId = (1 << 24) - 1;

std::vector<std::string> gguf_tokens(const JsonObject& metadata) {
  std::vector<std::string> tokens = metadata.strings(kGgufTokens);
  if (tokens.empty()) metadata.refuse(kGgufTokens, "", "a list of texts");
  return tokens;
}

// Throws Error unless a list has an entry for each token.
void check_length(const JsonObject& metadata, std::string_view key, size_t found, size_t expected) {
  if (found == expected) return;
  metadata.refuse(key, counted(static_cast<int64_t>(found), "entry", "entries"),
                  fmt::format("{}, as many as tokens", expected));
}

std::vector<PieceType> gguf_types(const JsonObject& metadata, size_t num_tokens) {
  const std::vector<int64_t> numbers = metadata.integers(kGgufTypes, 1, 6);
  if (numbers.empty()) return std::vector(num_tokens, PieceType::kNormal);
  check_length(metadata, kGgufTypes, numbers.size(), num_tokens);
  std::vector<PieceType> types;
  for (const int64_t number : numbers) types.push_back(static_cast<PieceType>(number));
  return types;
}

std::optional<int64_t> gguf_token(const JsonObject& metadata, std::string_view name,
                                  size_t num_tokens) {
  return metadata.find_integer(fmt::format("tokenizer.ggml.{}_token_id", name), 0,
                               static_cast<int64_t>(num_tokens) - 1);
}

// One piece stands for what cannot be spelled. Some files call their padding so.
void keep_one_unknown(const JsonObject& metadata, std::vector<PieceType>& types) {
  const auto given = gguf_token(metadata, "unknown", types.size());
  const auto first = std::ranges::find(types, PieceType::kUnknown);
  if (!given && first == types.end()) return;
  const auto kept =
      given ? static_cast<size_t>(*given) : static_cast<size_t>(first - types.begin());
  std::ranges::replace(types, PieceType::kUnknown, PieceType::kUnused);
  types[kept] = PieceType::kUnknown;
}

// Tokens that are found in text before all others.
bool is_added(PieceType type) {
  return type == PieceType::kControl || type == PieceType::kUserDefined ||
         type == PieceType::kUnknown;
}

void write_added(JsonWriter& json, std::string_view content, PieceType type) {
  json.field("content", content)
      .field("single_word", false)
      .field("lstrip", false)
      .field("rstrip", false)
      .field("normalized", false)
      .field("special", type != PieceType::kUserDefined);
}

// Byte-level BPE.
std::string gguf_tokenizer_json(const JsonObject& metadata, const std::vector<std::string>& tokens,
                                const std::vector<PieceType>& types, const GgufSplit& split) {
  const std::vector<std::string> merges = metadata.strings(kGgufMerges);
  if (merges.empty()) metadata.refuse(kGgufMerges, "", "a list of texts");
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("version", "1.0").key("added_tokens").begin_array();
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (!is_added(types[id])) continue;
    json.begin_object().field("id", id);
    write_added(json, tokens[id], types[id]);
    json.end_object();
  }
  json.end_array();
  if (split.composes) json.key("normalizer").begin_object().field("type", "NFC").end_object();
  write_pre_tokenizer(split, json);
  json.key("decoder").begin_object().field("type", "ByteLevel").end_object();
  const auto bos = gguf_token(metadata, "bos", tokens.size());
  const auto eos = gguf_token(metadata, "eos", tokens.size());
  const bool adds_bos =
      bos && metadata.find_bool("tokenizer.ggml.add_bos_token").value_or(split.adds_bos);
  const bool adds_eos = eos && metadata.find_bool("tokenizer.ggml.add_eos_token").value_or(false);
  if (adds_bos || adds_eos) {
    json.key("post_processor").begin_object().field("type", "TemplateProcessing");
    json.key("single").begin_array();
    const auto add = [&](const char* kind, std::string_view id) {
      json.begin_object().key(kind).begin_object().field("id", id).field("type_id", 0);
      json.end_object().end_object();
    };
    if (adds_bos) add("SpecialToken", tokens[static_cast<size_t>(*bos)]);
    add("Sequence", "A");
    if (adds_eos) add("SpecialToken", tokens[static_cast<size_t>(*eos)]);
    json.end_array().key("special_tokens").begin_object();
    const auto define = [&](int64_t id) {
      const std::string& content = tokens[static_cast<size_t>(id)];
      json.key(content).begin_object().field("id", content);
      json.key("ids").begin_array().value(id).end_array();
      json.key("tokens").begin_array().value(content).end_array().end_object();
    };
    if (adds_bos) define(*bos);
    if (adds_eos && eos != bos) define(*eos);
    json.end_object().end_object();
  }
  json.key("model")
      .begin_object()
      .field("type", "BPE")
      .field("ignore_merges", split.ignores_merges);
  json.key("vocab").begin_object();
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (types[id] != PieceType::kUnused) json.field(tokens[id], id);
  }
  json.end_object().field("merges", merges).end_object().end_object();
  return text;
}

// The scores and kinds of SentencePiece.
std::string gguf_tokenizer_model(const JsonObject& metadata, const std::vector<std::string>& tokens,
                                 const std::vector<PieceType>& types) {
  const std::vector<double> scores = metadata.numbers(kGgufScores, -1e30, 1e30);
  check_length(metadata, kGgufScores, scores.size(), tokens.size());
  SpmModel model = {
      .adds_prefix = metadata.find_bool("tokenizer.ggml.add_space_prefix").value_or(true),
      .removes_spaces =
          metadata.find_bool("tokenizer.ggml.remove_extra_whitespaces").value_or(false)};
  const auto id_of = [&](std::string_view name, int& id) {
    if (const auto found = gguf_token(metadata, name, tokens.size())) id = static_cast<int>(*found);
  };
  id_of("unknown", model.unknown);
  id_of("bos", model.bos);
  id_of("eos", model.eos);
  for (size_t i = 0; i < tokens.size(); ++i) {
    model.pieces.push_back({tokens[i], static_cast<float>(scores[i]), types[i]});
  }
  return spm_model(model);
}

// The tokens that are called by a name, as spellings, and those that are found in text first.
std::string gguf_tokenizer_config(const JsonObject& metadata,
                                  const std::vector<std::string>& tokens,
                                  const std::vector<PieceType>& types) {
  std::string text;
  JsonWriter json(text);
  json.begin_object();
  constexpr std::pair<std::string_view, std::string_view> kNamedTokens[] = {
      {"bos", "bos_token"},
      {"eos", "eos_token"},
      {"unknown", "unk_token"},
      {"padding", "pad_token"}};
  for (const auto& [name, field] : kNamedTokens) {
    if (const auto id = gguf_token(metadata, name, tokens.size())) {
      json.field(field, tokens[static_cast<size_t>(*id)]);
    }
  }
  for (const auto& [key, field] : {std::pair("tokenizer.ggml.add_bos_token", "add_bos_token"),
                                   {"tokenizer.ggml.add_eos_token", "add_eos_token"}}) {
    if (const auto on = metadata.find_bool(key)) json.field(field, *on);
  }
  // As llama.cpp does, text behind an added token gets the space that text at the beginning has.
  json.field("legacy", true);
  json.key("added_tokens_decoder").begin_object();
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (!is_added(types[id])) continue;
    json.key(std::to_string(id)).begin_object();
    write_added(json, tokens[id], types[id]);
    json.end_object();
  }
  json.end_object();
  const auto usual = metadata.find_string(kGgufTemplate);
  const std::vector<std::string> others = metadata.strings(kGgufTemplates);
  if (usual && others.empty()) json.field("chat_template", *usual);
  if (!others.empty()) {
    json.key("chat_template").begin_array();
    const auto add = [&](std::string_view name, std::string_view source) {
      json.begin_object().field("name", name).field("template", source).end_object();
    };
    if (usual) add("default", *usual);
    for (const std::string& name : others) {
      add(name, metadata.string(fmt::format("{}.{}", kGgufTemplate, name)));
    }
    json.end_array();
  }
  json.end_object();
  return text;
}

}  // namespace

std::map<std::string, std::string, std::less<>> gguf_tokenizer_files(const JsonObject& metadata) {
  std::map<std::string, std::string, std::less<>> files;
  const std::string kind = metadata.find_string(kGgufModel).value_or("none");
  if (kind == "none" || kind == "no_vocab") return files;
  const std::vector<std::string> tokens = gguf_tokens(metadata);
  if (static_cast<int64_t>(tokens.size()) > kMaxTokenId) {
    metadata.refuse(kGgufTokens, fmt::format("{} texts", tokens.size()),
                    fmt::format("at most {}", kMaxTokenId));
  }
  std::vector<PieceType> types = gguf_types(metadata, tokens.size());
  keep_one_unknown(metadata, types);
  if (kind == "gpt2") {
    files["tokenizer.json"] =
        gguf_tokenizer_json(metadata, tokens, types, find_split(metadata, kGgufPre));
  } else if (kind == "llama") {
    files["tokenizer.model"] = gguf_tokenizer_model(metadata, tokens, types);
  } else {
    metadata.refuse(kGgufModel, shortened(kind), "gpt2 or llama");
  }
  files["tokenizer_config.json"] = gguf_tokenizer_config(metadata, tokens, types);
  return files;
}

}  // namespace pagedinfer
