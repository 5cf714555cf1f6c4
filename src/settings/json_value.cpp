#include "settings/json_value.h"

#include <string>
#include <string_view>

#include "core/check.h"
#include "settings/values.h"

namespace pagedinfer {
namespace {

using simdjson::dom::element;

template <class T>
std::optional<Value> get(element json) {
  T value = {};
  return json.get(value) == simdjson::SUCCESS ? std::optional<Value>(value) : std::nullopt;
}

// A negative seed is the unsigned number with the same bits.
std::optional<Value> get_seed(element json) {
  int64_t negative = 0;
  if (json.get(negative) == simdjson::SUCCESS) return Value(static_cast<uint64_t>(negative));
  return get<uint64_t>(json);
}

// A text counts as a list with one item.
std::optional<Value> get_texts(element json, element& wrong) {
  std::vector<std::string> texts;
  std::string_view text;
  simdjson::dom::array list;
  if (json.get(text) == simdjson::SUCCESS && !text.empty()) {
    return std::vector{std::string(text)};
  }
  if (json.get(list) != simdjson::SUCCESS) return std::nullopt;
  for (const element item : list) {
    wrong = item;
    if (item.get(text) != simdjson::SUCCESS || text.empty()) return std::nullopt;
    texts.emplace_back(text);
  }
  return texts;
}

std::optional<Value> get_any(const Setting& setting, element json, element& wrong) {
  switch (setting.kind) {
    case Kind::kSwitch: return get<bool>(json);
    case Kind::kInteger: return get<int64_t>(json);
    case Kind::kNumber: return get<double>(json);
    case Kind::kSeed: return get_seed(json);
    case Kind::kTexts: return get_texts(json, wrong);
    case Kind::kTokenIds: {
      const auto tokens = read_token_ids(json, wrong);
      return tokens ? std::optional<Value>(*tokens) : std::nullopt;
    }
    default: CHECK(!"no line or file says a setting of this kind"); return std::nullopt;
  }
}

}  // namespace

std::optional<std::vector<TokenId>> read_token_ids(element json, element& wrong) {
  wrong = json;
  std::vector<TokenId> tokens;
  simdjson::dom::array list;
  if (json.get(list) != simdjson::SUCCESS) return std::nullopt;
  tokens.reserve(list.size());
  for (const element item : list) {
    wrong = item;
    int64_t token = -1;
    if (item.get(token) != simdjson::SUCCESS || token < 0 || token > kMaxCount) return std::nullopt;
    tokens.push_back(static_cast<TokenId>(token));
  }
  return tokens;
}

std::optional<Value> read_json(const Setting& setting, element json, element& wrong) {
  wrong = json;
  std::optional<Value> value = get_any(setting, json, wrong);
  if (value && !is_allowed(setting, *value)) value.reset();
  return value;
}

}  // namespace pagedinfer
