// Writes tokenizers into GGUF files as llama.cpp's converter does.
#pragma once

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <string>
#include <vector>

#include "io/json_file.h"
#include "tests/support/gguf_writer.h"

namespace pagedinfer {

// The tokens and merges of FOLDER/tokenizer.json.
inline void write_bpe_tokenizer(const std::string& folder, std::string_view pre,
                                GgufWriter& writer) {
  const JsonFile file(folder + "/tokenizer.json");
  const JsonObject root = file.root();
  const JsonObject model = *root.find_object("model");
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  const auto put = [&](int64_t id, std::string_view token, int32_t type) {
    const auto at = static_cast<size_t>(id);
    if (at >= tokens.size()) tokens.resize(at + 1), types.resize(at + 1, 5);
    tokens[at] = token, types[at] = type;
  };
  const JsonObject vocabulary = *model.find_object("vocab");
  for (const auto field : vocabulary.fields()) put(int64_t(field.value), field.key, 1);
  for (const JsonObject& added : root.objects("added_tokens")) {
    const bool is_special = added.find_bool("special").value_or(false);
    put(added.integer("id", 0, 1 << 20), added.string("content"), is_special ? 3 : 4);
  }
  std::vector<std::string> merges;
  simdjson::dom::array list = *model.find("merges");
  for (const auto merge : list) {
    merges.push_back(merge.is_string() ? std::string(std::string_view(merge))
                                       : fmt::format("{} {}", std::string_view(merge.at(0)),
                                                     std::string_view(merge.at(1))));
  }
  writer.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre);
  writer.texts("tokenizer.ggml.tokens", tokens).texts("tokenizer.ggml.merges", merges);
  writer.integers("tokenizer.ggml.token_type", types);
}

// The pieces and scores of FOLDER/tokenizer.model.
inline void write_spm_tokenizer(const std::string& folder, GgufWriter& writer) {
  sentencepiece::SentencePieceProcessor model;
  model.LoadOrDie(folder + "/tokenizer.model");
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;
  for (int id = 0; id < model.GetPieceSize(); ++id) {
    tokens.push_back(model.IdToPiece(id));
    scores.push_back(model.GetScore(id));
    types.push_back(model.IsUnknown(id)   ? 2
                    : model.IsControl(id) ? 3
                    : model.IsUnused(id)  ? 5
                    : model.IsByte(id)    ? 6
                                          : 1);
  }
  writer.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", tokens);
  writer.reals("tokenizer.ggml.scores", scores).integers("tokenizer.ggml.token_type", types);
  writer.number("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(model.bos_id()));
  writer.number("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(model.eos_id()));
  writer.number("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(model.unk_id()));
}

}  // namespace pagedinfer
