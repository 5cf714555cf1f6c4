#include "text/files/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <unordered_set>

#include "core/refusal.h"
#include "text/files/special_tokens.h"

namespace pagedinfer {
namespace {

using simdjson::dom::element;

constexpr int64_t kMaxId = Vocabulary::kMaxIds - 1;

void add_token(const JsonObject& object, std::string_view key, Vocabulary& vocabulary,
               std::string_view text, TokenId id) {
  switch (vocabulary.add(text, id)) {
    case Vocabulary::Added::kYes: return;
    case Vocabulary::Added::kTextTaken:
      object.fail(key, fmt::format("has '{}' twice", shortened(text)));
    case Vocabulary::Added::kIdTaken:
      object.fail(key, fmt::format("gives id {} to '{}' and to '{}'", id,
                                   shortened(vocabulary.text(id)), shortened(text)));
  }
}

void read_vocabulary(const JsonObject& model, Vocabulary& vocabulary) {
  const auto entries = model.find_object("vocab");
  if (!entries) model.refuse("vocab", "", "an object of tokens and ids");
  for (const auto field : entries->fields()) {
    int64_t id = 0;
    if (field.value.get(id) != simdjson::SUCCESS || id < 0 || id > kMaxId) {
      model.fail("vocab",
                 fmt::format("gives '{}' no id from 0 to {}", shortened(field.key), kMaxId));
    }
    add_token(model, "vocab", vocabulary, field.key, static_cast<TokenId>(id));
  }
}

// A merge is "left right" or ["left", "right"].
bool read_pair(element merge, std::array<std::string_view, 2>& pair) {
  std::string_view line;
  if (merge.get(line) == simdjson::SUCCESS) {
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || space != line.rfind(' ')) return false;
    pair = {line.substr(0, space), line.substr(space + 1)};
    return true;
  }
  simdjson::dom::array both;
  if (merge.get(both) != simdjson::SUCCESS) return false;
  size_t n = 0;
  for (const element side : both) {
    if (n == 2 || side.get(pair[n++]) != simdjson::SUCCESS) return false;
  }
  return n == 2;
}

MergeTable read_merges(const JsonObject& model, const Vocabulary& vocabulary) {
  const auto value = model.find("merges");
  simdjson::dom::array list;
  if (!value || value->get(list) != simdjson::SUCCESS) {
    model.refuse("merges", value ? "no list" : "", "a list of pairs");
  }
  size_t count = 0;  // simdjson's own count saturates at 2^24
  for ([[maybe_unused]] const element merge : list) ++count;
  MergeTable merges(count);
  uint32_t rank = 0;
  std::string merged;
  for (const element merge : list) {
    std::array<std::string_view, 2> pair;
    if (!read_pair(merge, pair)) {
      model.fail("merges", fmt::format("has no pair of tokens at {}", rank));
    }
    merged.assign(pair[0]).append(pair[1]);
    std::array<TokenId, 3> ids = {};
    for (size_t i = 0; i < 3; ++i) {
      const std::string_view text = i < 2 ? pair[i] : std::string_view(merged);
      const auto id = vocabulary.find(text);
      if (!id) {
        model.fail("merges", fmt::format("has '{}' at {}, which is not in 'model.vocab'",
                                         shortened(text), rank));
      }
      ids[i] = *id;
    }
    merges.add(ids[0], ids[1], rank++, ids[2]);
  }
  return merges;
}

void refuse_affix(const JsonObject& model, std::string_view key) {
  if (!model.find_string(key).value_or("").empty()) model.fail(key, "is not supported");
}

BpeOptions read_options(const JsonObject& model, const Vocabulary& vocabulary, bool byte_level) {
  check_keys(model,
             {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
              "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (model.find_number("dropout", 0, 1).value_or(0) != 0) {
    model.fail("dropout", "is not 0, which is not supported");
  }
  refuse_affix(model, "continuing_subword_prefix");
  refuse_affix(model, "end_of_word_suffix");
  BpeOptions options{.byte_level = byte_level,
                     .byte_fallback = model.find_bool("byte_fallback").value_or(false),
                     .ignore_merges = model.find_bool("ignore_merges").value_or(false),
                     .fuse_unk = model.find_bool("fuse_unk").value_or(false)};
  if (const auto unk = model.find_string("unk_token")) {
    options.unk = vocabulary.find(*unk);
    if (!options.unk) {
      model.fail("unk_token", fmt::format("is '{}', which is no token", shortened(*unk)));
    }
  }
  for (int byte = 0; byte_level && options.byte_fallback && byte < 256; ++byte) {
    if (vocabulary.find(byte_level_letters(std::string(1, static_cast<char>(byte))))) continue;
    model.fail("byte_fallback", "is not supported where ByteLevel's letters are not all tokens");
  }
  return options;
}

std::vector<AddedToken> read_added_tokens(const JsonObject& root, Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  const int model_size = vocabulary.num_tokens();
  TokenId next = model_size;
  std::unordered_set<std::string> contents;
  for (const JsonObject& entry : root.objects("added_tokens")) {
    check_keys(entry,
               {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedToken token = read_added_token(entry);
    if (token.content.empty()) entry.fail("content", "is empty");
    token.id = static_cast<TokenId>(entry.integer("id", 0, kMaxId));
    if (!contents.insert(token.content).second) {
      entry.fail("content",
                 fmt::format("is '{}', which was added before", shortened(token.content)));
    }
    // As in the reference, the id is the model's or the next free one.
    const TokenId expected = vocabulary.find(token.content).value_or(next);
    if (token.id != expected) {
      entry.refuse("id", std::to_string(token.id), std::to_string(expected));
    }
    if (!vocabulary.find(token.content)) {
      add_token(entry, "content", vocabulary, token.content, token.id);
    }
    next = std::max(next, token.id + 1);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace

BpeParts read_tokenizer_json(const JsonFile& file) {
  const JsonObject root = file.root();
  check_keys(root, {"version", "truncation", "padding", "added_tokens", "normalizer",
                    "pre_tokenizer", "post_processor", "decoder", "model"});
  if (const auto version = root.find_string("version"); version && *version != "1.0") {
    root.refuse("version", *version, "1.0");
  }
  const auto model = root.find_object("model");
  if (!model) root.refuse("model", "", "an object");

  BpeParts parts{.vocabulary = std::make_unique<Vocabulary>()};
  bool byte_level = false;
  parts.normalizer = read_normalizer(root);
  parts.pre_tokenizer = read_pre_tokenizer(root, byte_level);
  parts.text = read_decoder(root);
  if (const std::string type = model->find_string("type").value_or("BPE"); type != "BPE") {
    model->fail("type", fmt::format("is {}, supported is BPE", type));
  }
  read_vocabulary(*model, *parts.vocabulary);
  parts.vocab_size = parts.vocabulary->num_ids();
  const BpeOptions options = read_options(*model, *parts.vocabulary, byte_level);
  parts.bpe =
      std::make_unique<Bpe>(*parts.vocabulary, read_merges(*model, *parts.vocabulary), options);
  parts.added = read_added_tokens(root, *parts.vocabulary);
  read_post_processor(root, *parts.vocabulary, parts.prefix, parts.suffix);
  return parts;
}

}  // namespace pagedinfer
