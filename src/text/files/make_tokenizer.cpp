#include "text/files/make_tokenizer.h"

#include <fmt/format.h>

#include <string_view>

#include "core/error.h"
#include "core/refusal.h"
#include "io/json_file.h"
#include "text/files/spm.h"
#include "text/files/tokenizer_config.h"
#include "text/files/tokenizer_json.h"

namespace pagedinfer {
namespace {

constexpr std::string_view kTokenizerJson = "tokenizer.json", kSentencePiece = "tokenizer.model";

// Whether a step of that type stands anywhere in the field.
bool mentions(const JsonObject& root, std::string_view key, std::string_view type) {
  const auto value = root.find(key);
  return value &&
         simdjson::minify(*value).find(fmt::format("\"type\":\"{}\"", type)) != std::string::npos;
}

std::string kind_of(const JsonObject& root) {
  const auto model = root.find_object("model");
  const std::string type = model ? model->find_string("type").value_or("BPE") : "";
  if (type != "BPE") return shortened(type);
  if (mentions(root, "pre_tokenizer", "ByteLevel")) return "byte-level BPE";
  return model->find_bool("byte_fallback").value_or(false) ? "BPE with byte fallback" : "BPE";
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const ModelStore& model) {
  if (model.has(kTokenizerJson)) {
    BpeParts parts = read_tokenizer_json(model.json(kTokenizerJson));
    apply_config(read_tokenizer_config(model), parts);
    return make_bpe_tokenizer(std::move(parts));
  }
  if (!model.has(kSentencePiece)) return nullptr;
  return make_sentencepiece_tokenizer(model.path_of(kSentencePiece), model.text(kSentencePiece),
                                      read_tokenizer_config(model));
}

void check_vocabulary(const ModelStore& model, const Tokenizer& tokenizer, int vocab) {
  if (tokenizer.vocab_size() <= vocab) return;
  throw Error(fmt::format("{}: the tokenizer has {} tokens, config.json only {} (vocab_size)",
                          model.path(), tokenizer.vocab_size(), vocab));
}

TokenizerKind tokenizer_kind(const ModelStore& model) {
  if (model.has(kTokenizerJson)) {
    return {std::string(kTokenizerJson), kind_of(model.json(kTokenizerJson).root())};
  }
  if (model.has(kSentencePiece)) return {std::string(kSentencePiece), "sentencepiece"};
  return {};
}

}  // namespace pagedinfer
