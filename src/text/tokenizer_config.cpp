#include "text/tokenizer_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <unordered_map>

#include "core/error.h"
#include "io/json_file.h"

namespace pagedinfer {
namespace {

constexpr std::string_view kNamed[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};

AddedToken read_added(const JsonObject& entry, std::string_view id) {
  AddedToken token = read_added_token(entry);
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), token.id);
  if (error != std::errc() || end != id.data() + id.size() || token.id < 0 ||
      token.id >= Vocabulary::kMaxIds)
    entry.fail("content", fmt::format("has the id '{}'", id));
  return token;
}

// Appends a token spelt out: a string, or an object with what else is known of it. An empty
// string is none.
void append_special(const std::string& path, const JsonObject& root, std::string_view key,
                    simdjson::dom::element value, std::vector<AddedToken>& tokens) {
  AddedToken token;
  std::string_view text;
  simdjson::dom::object object;
  if (value.get(text) == simdjson::SUCCESS) {
    token.content = text;
  } else if (value.get(object) == simdjson::SUCCESS) {
    token = read_added_token(JsonObject(path, fmt::format("{}.", key), object));
  } else {
    root.fail(key, "is neither a token's text nor an object");
  }
  token.id = -1;
  token.special = true;
  if (!token.content.empty()) tokens.push_back(std::move(token));
}

// A list of tokens, or an object of them by a name each. Whether it is a list that is not empty.
bool append_list(const std::string& path, const JsonObject& root, std::string_view key,
                 std::vector<AddedToken>& tokens) {
  const auto value = root.find(key);
  if (!value) return false;
  simdjson::dom::array list;
  simdjson::dom::object names;
  if (value->get(list) == simdjson::SUCCESS) {
    for (const auto item : list) append_special(path, root, key, item, tokens);
    return list.size() > 0;
  } else if (value->get(names) == simdjson::SUCCESS) {
    for (const auto field : names) append_special(path, root, key, field.value, tokens);
  } else {
    root.fail(key, "is neither a list of tokens nor an object");
  }
  return false;
}

// `has_list`: whether a list of special tokens without a role has been read.
void read_special(const std::string& path, const JsonObject& root, bool& has_list,
                  TokenizerConfig& config) {
  for (const auto field : root.fields()) {
    if (field.value.is_null()) continue;
    if (std::ranges::find(kNamed, field.key) != std::end(kNamed)) {
      append_special(path, root, field.key, field.value, config.named);
    } else if (field.key.ends_with("_token") && !field.value.is_bool()) {
      append_special(path, root, field.key, field.value, config.extra);
    }
  }
  // The first of these lists that is there counts.
  for (const std::string_view key : {"extra_special_tokens", "additional_special_tokens"})
    has_list = has_list || append_list(path, root, key, config.extra);
}

// The added tokens of a tokenizer.json, by their spelling.
class Places {
 public:
  Places(BpeParts& parts, const std::string& path) : parts_(parts), path_(path) {
    for (size_t i = 0; i < parts.added.size(); ++i) at_.emplace(parts.added[i].content, i);
  }

  // The place of a token. Adds it with the next id if it is new; a negative id is any.
  AddedToken& find_or_add(AddedToken token) {
    const auto [place, is_new] = at_.emplace(token.content, parts_.added.size());
    if (!is_new) return parts_.added[place->second];
    const auto known = parts_.vocabulary->find(token.content);
    const TokenId id = known.value_or(parts_.vocabulary->num_ids());
    if (token.id >= 0 && token.id != id) {
      throw Error(
          fmt::format("{}: '{}' has the id {}, expected {}", path_, token.content, token.id, id));
    }
    if (!known && (id >= Vocabulary::kMaxIds ||
                   parts_.vocabulary->add(token.content, id) != Vocabulary::Added::kYes))
      throw Error(fmt::format("{}: no id is left for '{}'", path_, token.content));
    token.id = id;
    parts_.added.push_back(std::move(token));
    return parts_.added.back();
  }

 private:
  BpeParts& parts_;
  const std::string& path_;
  std::unordered_map<std::string, size_t> at_ = {};
};

}  // namespace

AddedToken read_added_token(const JsonObject& entry) {
  AddedToken token{.content = entry.string("content"),
                   .special = entry.find_bool("special").value_or(false),
                   .single_word = entry.find_bool("single_word").value_or(false),
                   .lstrip = entry.find_bool("lstrip").value_or(false),
                   .rstrip = entry.find_bool("rstrip").value_or(false)};
  token.normalized = entry.find_bool("normalized").value_or(!token.special);
  if (token.content.empty()) entry.fail("content", "is empty");
  return token;
}

TokenizerConfig read_tokenizer_config(const std::string& model_dir) {
  TokenizerConfig config;
  bool has_list = false;
  if (const std::string path = model_dir + "/tokenizer_config.json";
      std::filesystem::exists(path)) {
    const JsonFile file(path);
    const JsonObject root = file.root();
    if (root.find_bool("split_special_tokens").value_or(false))
      root.fail("split_special_tokens", "is true, which is not supported");
    config.add_bos = root.find_bool("add_bos_token");
    config.add_eos = root.find_bool("add_eos_token");
    config.legacy = root.find_bool("legacy").value_or(false);
    read_special(path, root, has_list, config);
    if (const auto added = root.find_object("added_tokens_decoder")) {
      for (const auto field : added->fields()) {
        simdjson::dom::object entry;
        if (field.value.get(entry) != simdjson::SUCCESS) added->fail(field.key, "is no object");
        const std::string prefix = fmt::format("added_tokens_decoder.{}.", field.key);
        config.added.push_back(read_added(JsonObject(path, prefix, entry), field.key));
      }
    }
  }
  // A file of older directories.
  if (const std::string path = model_dir + "/special_tokens_map.json";
      config.added.empty() && std::filesystem::exists(path)) {
    const JsonFile file(path);
    read_special(path, file.root(), has_list, config);
  }
  std::ranges::sort(config.added, {}, &AddedToken::id);
  return config;
}

void apply_config(const TokenizerConfig& config, const std::string& path, BpeParts& parts) {
  Places places(parts, path);
  for (const AddedToken& token : config.added) {
    AddedToken& place = places.find_or_add(token);
    const bool special = place.special || token.special;
    const TokenId id = place.id;
    place = token;
    place.special = special;
    place.id = id;
  }
  for (const AddedToken& token : config.named) places.find_or_add(token).special = true;
  for (const AddedToken& token : config.extra) places.find_or_add(token);
}

}  // namespace pagedinfer
