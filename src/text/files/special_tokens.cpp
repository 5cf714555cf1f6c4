#include "text/files/special_tokens.h"

#include <algorithm>

namespace pagedinfer {
namespace {

using simdjson::dom::element;

constexpr std::string_view kList = "extra_special_tokens", kOlderList = "additional_special_tokens";
constexpr std::string_view kNames = "model_specific_special_tokens";

// The last field of that name, also if it is null.
std::optional<element> field_of(const JsonObject& root, std::string_view key) {
  std::optional<element> found;
  for (const auto field : root.fields()) {
    if (field.key == key) found = field.value;
  }
  return found;
}

// Whether an object is marked as a token with all its properties.
bool is_marked(element value) {
  std::string_view type;
  return value.is_object() && value["__type"].get(type) == simdjson::SUCCESS &&
         type == "AddedToken";
}

// Reads a token that is a string, or an object with its properties. `is_special` as above.
AddedToken token_of(const JsonObject& root, std::string_view key, element value, bool is_special) {
  AddedToken token{.id = -1, .special = true};
  std::string_view text;
  simdjson::dom::object object;
  if (value.get(text) == simdjson::SUCCESS) {
    token.content = text;
    return token;
  }
  if (value.get(object) != simdjson::SUCCESS) {
    root.fail(key, "is neither a token's text nor an object");
  }
  token = read_added_token(root.within(key, object), is_special);
  token.id = -1;
  return token;
}

std::vector<AddedToken> tokens_of(const JsonObject& root, std::string_view key, element value) {
  std::vector<AddedToken> tokens;
  if (value.is_null()) return tokens;
  simdjson::dom::array list;
  if (value.get(list) != simdjson::SUCCESS) {
    root.fail(key, "is neither a list of tokens nor an object");
  }
  for (const element item : list) tokens.push_back(token_of(root, key, item, !is_marked(item)));
  return tokens;
}

bool is_empty(const std::optional<element>& value) {
  return !value || value->is_null() || (value->is_array() && value->get_array().size() == 0) ||
         (value->is_object() && value->get_object().size() == 0);
}

// An empty spelling counts as absent.
void append(std::vector<AddedToken>& tokens, const AddedToken& token) {
  if (!token.content.empty()) tokens.push_back(token);
}

template <class Names>
void set(Names& names, std::string_view name, AddedToken token) {
  const auto place = std::ranges::find(names, name, [](const auto& entry) { return entry.first; });
  if (place == names.end()) {
    names.emplace_back(name, std::move(token));
  } else {
    place->second = std::move(token);
  }
}

}  // namespace

AddedToken read_added_token(const JsonObject& entry, bool is_special) {
  AddedToken token{.content = entry.string("content"),
                   .special = entry.find_bool("special").value_or(false) || is_special,
                   .single_word = entry.find_bool("single_word").value_or(false),
                   .lstrip = entry.find_bool("lstrip").value_or(false),
                   .rstrip = entry.find_bool("rstrip").value_or(false)};
  token.normalized = entry.find_bool("normalized").value_or(!token.special);
  return token;
}

void SpecialTokens::append_object(const JsonObject& root, std::string_view key,
                                  simdjson::dom::object names) {
  for (const auto field : names) set(strong_, field.key, token_of(root, key, field.value, true));
}

void SpecialTokens::read_tokenizer_config(const JsonObject& root) {
  for (const auto field : root.fields()) {
    if (field.value.is_null()) continue;
    if (const auto* role = std::ranges::find(kRoles, field.key); role != kRoles.end()) {
      roles_[static_cast<size_t>(role - kRoles.begin())] =
          token_of(root, field.key, field.value, true);
    } else if (field.key.ends_with("_token") &&
               (field.value.is_string() || is_marked(field.value))) {
      set(field.value.is_string() ? strong_ : weak_, field.key,
          token_of(root, field.key, field.value, true));
    }
  }
  std::optional<element> list = field_of(root, kList), older = field_of(root, kOlderList);
  if (older && is_empty(list)) list = std::exchange(older, std::nullopt);
  simdjson::dom::object names;
  if (list && list->get(names) == simdjson::SUCCESS) {
    append_object(root, kList, names);
    list.reset();
  }
  const auto own = field_of(root, kNames);
  if (strong_.empty() && own && own->get(names) == simdjson::SUCCESS) {
    append_object(root, kNames, names);
  }
  if (list) list_ = tokens_of(root, kList, *list);
  if (older) older_list_ = tokens_of(root, kOlderList, *older);
}

void SpecialTokens::read_special_tokens_map(const JsonObject& root) {
  for (const auto field : root.fields()) {
    simdjson::dom::object names;
    if (const auto* role = std::ranges::find(kRoles, field.key); role != kRoles.end()) {
      auto& token = roles_[static_cast<size_t>(role - kRoles.begin())];
      token.reset();
      if (!field.value.is_null()) token = token_of(root, field.key, field.value, true);
    } else if (field.key == kList && field.value.get(names) == simdjson::SUCCESS) {
      append_object(root, kList, names);
      list_.reset();
    } else if (field.key == kList) {
      if (!list_ || field.value.is_null()) list_.emplace();
      for (AddedToken& token : tokens_of(root, kList, field.value)) {
        token.special = true;
        list_->push_back(std::move(token));
      }
    } else if (field.key == kOlderList) {
      older_list_ = tokens_of(root, kOlderList, field.value);
    } else if (field.key.ends_with("_token") &&
               (field.value.is_string() || field.value.is_object())) {
      set(weak_, field.key, token_of(root, field.key, field.value, true));
    }
  }
}

bool SpecialTokens::is_special(std::string_view content) const {
  const auto is_it = [&](const auto& token) { return token && token->content == content; };
  return std::ranges::any_of(roles_, is_it) ||
         (list_ && std::ranges::find(*list_, content, &AddedToken::content) != list_->end());
}

std::vector<SpecialTokens::Name> SpecialTokens::all_names() const {
  std::vector<Name> all;
  for (size_t i = 0; i < kRoles.size(); ++i) {
    all.emplace_back(kRoles[i], roles_[i].value_or(AddedToken{}));
  }
  for (const auto* names : {&weak_, &strong_}) {
    for (const auto& [name, token] : *names) set(all, name, token);
  }
  return all;
}

std::vector<AddedToken> SpecialTokens::named() const {
  std::vector<AddedToken> tokens;
  for (const auto& entry : all_names()) append(tokens, entry.second);
  return tokens;
}

std::vector<std::pair<std::string, std::string>> SpecialTokens::spellings() const {
  std::vector<std::pair<std::string, std::string>> spellings;
  for (const auto& [name, token] : all_names()) {
    if (!token.content.empty()) spellings.emplace_back(name, token.content);
  }
  return spellings;
}

std::string SpecialTokens::spelling(std::string_view role) const {
  for (const auto& [name, token] : strong_) {
    if (name == role) return token.content;
  }
  for (size_t i = 0; i < kRoles.size(); ++i) {
    if (kRoles[i] == role && roles_[i]) return roles_[i]->content;
  }
  return "";
}

std::vector<AddedToken> SpecialTokens::listed() const {
  std::vector<AddedToken> tokens;
  const auto& list = list_ ? list_ : older_list_;
  if (!list) return tokens;
  for (const AddedToken& token : *list) append(tokens, token);
  return tokens;
}

}  // namespace pagedinfer
