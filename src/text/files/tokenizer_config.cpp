#include "text/files/tokenizer_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/numbers.h"
#include "core/refusal.h"
#include "text/files/special_tokens.h"

namespace pagedinfer {
namespace {

constexpr std::string_view kConfig = "tokenizer_config.json",
                           kSpecialTokens = "special_tokens_map.json",
                           kAddedTokens = "added_tokens.json";

bool names(const std::vector<AddedToken>& tokens, std::string_view content) {
  return std::ranges::find(tokens, content, &AddedToken::content) != tokens.end();
}

// Reads "added_tokens_decoder": tokens by their ids.
void read_list(const JsonObject& list, TokenizerConfig& config) {
  for (const auto field : list.fields()) {
    simdjson::dom::object object;
    if (field.value.get(object) != simdjson::SUCCESS) list.fail(field.key, "is no object");
    const JsonObject entry = list.within(field.key, object);
    AddedToken token = read_added_token(entry, names(config.named, entry.string("content")));
    if (token.content.empty()) entry.fail("content", "is empty");
    token.id = read_number<TokenId>(field.key).value_or(-1);
    if (token.id < 0 || token.id >= Vocabulary::kMaxIds) {
      entry.fail("content", fmt::format("has the id '{}'", shortened(field.key)));
    }
    config.added.push_back(std::move(token));
  }
  std::ranges::sort(config.added, {}, &AddedToken::id);
}

// Reads added_tokens.json of older directories: ids by spelling. Of two with the same id the later
// one counts.
void read_added_file(const JsonObject& root, const SpecialTokens& special,
                     TokenizerConfig& config) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  std::map<int64_t, AddedToken> by_id;
  for (const auto field : root.fields()) {
    AddedToken token{.content = std::string(field.key)};
    const int64_t id = root.integer(field.key, kMin, std::numeric_limits<int64_t>::max());
    token.id = id >= 0 && id < Vocabulary::kMaxIds ? static_cast<TokenId>(id) : -1;
    token.special = special.is_special(field.key);
    token.normalized = !token.special;
    token.special = token.special || names(config.named, field.key);
    if (token.content.empty()) root.fail(field.key, "is the empty spelling");
    by_id.insert_or_assign(id, std::move(token));
  }
  for (auto& [id, token] : by_id) config.added.push_back(std::move(token));
}

// The added tokens of a tokenizer.json, by their spelling.
class Places {
 public:
  Places(BpeParts& parts, const std::string& path) : parts_(parts), path_(path) {
    for (size_t i = 0; i < parts.added.size(); ++i) at_.emplace(parts.added[i].content, i);
  }

  bool has(const std::string& content) const { return at_.contains(content); }

  // Changes the properties of a token. A special token remains special.
  void set(const AddedToken& token) {
    AddedToken& place = find_or_add(token);
    const bool is_special = place.special || token.special;
    const TokenId id = place.id;
    place = token;
    place.special = is_special;
    place.id = id;
  }

  // The token with this content; if there is none, it is added with the next free id. Throws Error
  // if token.id is neither negative nor the id that the token has or gets.
  AddedToken& find_or_add(AddedToken token) {
    const auto [place, is_new] = at_.emplace(token.content, parts_.added.size());
    if (!is_new) return parts_.added[place->second];
    const auto known = parts_.vocabulary->find(token.content);
    const TokenId id = known.value_or(parts_.vocabulary->num_ids());
    if (token.id >= 0 && token.id != id) {
      throw Error(fmt::format("{}: '{}' has the id {}, expected {}", path_,
                              shortened(token.content), token.id, id));
    }
    if (!known && (id >= Vocabulary::kMaxIds ||
                   parts_.vocabulary->add(token.content, id) != Vocabulary::Added::kYes)) {
      throw Error(fmt::format("{}: no id is left for '{}'", path_, shortened(token.content)));
    }
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

TokenizerConfig read_tokenizer_config(const ModelStore& model) {
  TokenizerConfig config;
  SpecialTokens special;
  std::optional<JsonFile> file;
  std::optional<JsonObject> list;
  if (model.has(kConfig)) {
    const JsonObject root = file.emplace(model.json(kConfig)).root();
    if (root.find_bool("split_special_tokens").value_or(false)) {
      root.fail("split_special_tokens", "is true, which is not supported");
    }
    config.add_bos = root.find_bool("add_bos_token");
    config.add_eos = root.find_bool("add_eos_token");
    config.legacy = root.find_bool("legacy").value_or(false);
    special.read_tokenizer_config(root);
    list = root.find_object("added_tokens_decoder");
  }
  config.lists_added = list.has_value();
  config.added_from = model.path_of(kConfig);
  if (!list && model.has(kSpecialTokens)) {
    special.read_special_tokens_map(model.json(kSpecialTokens).root());
  }
  config.named = special.named();
  config.extra = special.listed();
  config.bos = special.spelling("bos_token");
  config.eos = special.spelling("eos_token");
  config.spellings = special.spellings();
  if (list) {
    read_list(*list, config);
  } else if (model.has(kAddedTokens)) {
    config.added_from = model.path_of(kAddedTokens);
    read_added_file(model.json(kAddedTokens).root(), special, config);
  }
  return config;
}

void apply_config(const TokenizerConfig& config, BpeParts& parts) {
  Places places(parts, config.added_from);
  if (!config.lists_added) {
    for (AddedToken& token : parts.added) {
      token.special = token.special || names(config.named, token.content);
    }
  }
  std::unordered_set<TokenId> taken;
  for (const AddedToken& token : parts.added) taken.insert(token.id);
  for (AddedToken token : config.added) {
    if (!config.lists_added) {
      if (places.has(token.content) || taken.contains(token.id)) continue;
      token.id = -1;
    }
    places.set(token);
  }
  // If a new token has several names, the properties of the last one count.
  std::vector<AddedToken> more;
  for (const auto* tokens : {&config.named, &config.extra}) {
    std::ranges::copy_if(*tokens, std::back_inserter(more),
                         [&](const AddedToken& token) { return !places.has(token.content); });
  }
  for (const AddedToken& token : more) places.set(token);
}

}  // namespace pagedinfer
