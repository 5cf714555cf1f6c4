#include "text/files/make_tokenizer.h"

#include <fmt/format.h>

#include <string_view>

#include "core/error.h"
#include "core/refusal.h"
#include "io/json_file.h"
#include "io/open_file.h"
#include "text/files/spm.h"
#include "text/files/tokenizer_config.h"
#include "text/files/tokenizer_json.h"

namespace pagedinfer {
namespace {

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

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& model_dir) {
  const std::string sentencepiece = model_dir + "/tokenizer.model";
  const std::string json = model_dir + "/tokenizer.json";
  if (file_exists(json)) {
    BpeParts parts = read_tokenizer_json(JsonFile(json));
    apply_config(read_tokenizer_config(model_dir), parts);
    return make_bpe_tokenizer(std::move(parts));
  }
  if (!file_exists(sentencepiece)) return nullptr;
  return make_sentencepiece_tokenizer(sentencepiece, read_tokenizer_config(model_dir));
}

void check_vocabulary(const std::string& model_dir, const Tokenizer& tokenizer, int vocab) {
  if (tokenizer.vocab_size() <= vocab) return;
  throw Error(fmt::format("{}: the tokenizer has {} tokens, config.json only {} (vocab_size)",
                          model_dir, tokenizer.vocab_size(), vocab));
}

TokenizerKind tokenizer_kind(const std::string& model_dir) {
  if (const std::string path = model_dir + "/tokenizer.json"; file_exists(path)) {
    return {"tokenizer.json", kind_of(JsonFile(path).root())};
  }
  if (file_exists(model_dir + "/tokenizer.model")) return {"tokenizer.model", "sentencepiece"};
  return {};
}

}  // namespace pagedinfer
