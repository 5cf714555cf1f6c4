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

// A token's spelling: a string, or an object that has it.
std::optional<std::string> spelling(const JsonObject& root, std::string_view key) {
  const auto value = root.find(key);
  if (!value) return std::nullopt;
  if (value->is_object()) return root.find_object(key)->string("content");
  return root.find_string(key);
}

AddedToken read_added(const JsonObject& entry, std::string_view id) {
  AddedToken token{.content = entry.string("content"),
                   .special = entry.find_bool("special").value_or(false),
                   .single_word = entry.find_bool("single_word").value_or(false),
                   .lstrip = entry.find_bool("lstrip").value_or(false),
                   .rstrip = entry.find_bool("rstrip").value_or(false)};
  token.normalized = entry.find_bool("normalized").value_or(!token.special);
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), token.id);
  if (error != std::errc() || end != id.data() + id.size() || token.id < 0 ||
      token.id >= Vocabulary::kMaxIds)
    entry.fail("content", fmt::format("has the id '{}'", id));
  if (token.content.empty()) entry.fail("content", "is empty");
  return token;
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

std::vector<TokenId> around(const BpeParts& parts, const std::string& path,
                            const std::optional<bool>& add,
                            const std::optional<std::string>& token) {
  if (!add.value_or(false) || !token) return {};
  const auto id = parts.vocabulary->find(*token);
  if (!id) throw Error(fmt::format("{}: '{}' is no token", path, *token));
  return {*id};
}

}  // namespace

TokenizerConfig read_tokenizer_config(const std::string& path) {
  TokenizerConfig config;
  if (!std::filesystem::exists(path)) return config;
  const JsonFile file(path);
  const JsonObject root = file.root();
  if (root.find_bool("split_special_tokens").value_or(false))
    root.fail("split_special_tokens", "is true, which is not supported");
  config.add_bos = root.find_bool("add_bos_token");
  config.add_eos = root.find_bool("add_eos_token");
  config.bos = spelling(root, "bos_token");
  config.eos = spelling(root, "eos_token");
  for (const std::string_view key : kNamed)
    if (auto token = spelling(root, key); token && !token->empty())
      config.special.push_back(std::move(*token));
  if (const auto added = root.find_object("added_tokens_decoder")) {
    for (const auto field : added->fields()) {
      simdjson::dom::object entry;
      if (field.value.get(entry) != simdjson::SUCCESS) added->fail(field.key, "is no object");
      const std::string prefix = fmt::format("added_tokens_decoder.{}.", field.key);
      config.added.push_back(read_added(JsonObject(path, prefix, entry), field.key));
    }
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
  for (const std::string& content : config.special) {
    AddedToken& place = places.find_or_add({.id = -1, .content = content});
    if (place.special) continue;
    place = {.id = place.id, .content = content, .special = true};
  }
  if (!config.add_bos && !config.add_eos) return;
  parts.prefix = around(parts, path, config.add_bos, config.bos);
  parts.suffix = around(parts, path, config.add_eos, config.eos);
}

}  // namespace pagedinfer
