#include "request/request_fields.h"

#include <fmt/format.h>

#include <utility>

#include "core/json.h"
#include "core/refusal.h"
#include "settings/json_value.h"
#include "settings/values.h"

namespace pagedinfer {

namespace dom = simdjson::dom;

std::string_view shorten(std::string_view text) {
  constexpr size_t kMaxBytes = 60;
  return first_bytes(text, kMaxBytes);
}

std::string quote(std::string_view text) {
  std::string result;
  append_json_string(result, shorten(text));
  if (shorten(text).size() < text.size()) result += "...";
  return result;
}

std::string describe(dom::element value) {
  switch (value.type()) {
    case dom::element_type::STRING: return quote(value);
    case dom::element_type::ARRAY:
      return dom::array(value).size() == 0 ? "an empty list" : "a list";
    case dom::element_type::OBJECT:
      return dom::object(value).size() == 0 ? "an empty object" : "an object";
    default: return simdjson::minify(value);
  }
}

int RequestFields::find(std::string_view name) const {
  if (name == names_.prompt) return key("prompt");
  if (name == names_.id) return key("id");
  const int known = find_key(name);
  return known == key("prompt") || known == key("id") ? -1 : known;
}

std::string_view RequestFields::name_of(int key) const {
  return key == pagedinfer::key("prompt") ? names_.prompt
         : key == pagedinfer::key("id")   ? names_.id
                                          : kKeys[static_cast<size_t>(key)].name;
}

std::string RequestFields::path_of(int key) const {
  return fmt::format("{}{}", where_, name_of(key));
}

bool RequestFields::has(int key) const {
  const auto& value = values_[static_cast<size_t>(key)];
  return value && !value->is_null();
}

bool RequestFields::says(int key, std::string_view text) const {
  std::string_view value;
  return has(key) && at(key).get(value) == simdjson::SUCCESS && value == text;
}

void RequestFields::refuse(const RequestError& error) {
  if (!failed()) error_ = error;
}

void RequestFields::refuse(ErrorCode code, std::string message) {
  if (!failed()) error_ = {code, std::move(message)};
}

void RequestFields::refuse(int key, std::string_view expected) {
  refuse_found(path_of(key), has(key) ? describe(at(key)) : "nothing", expected);
}

void RequestFields::refuse_found(std::string_view path, std::string_view found,
                                 std::string_view expected) {
  refuse("invalid_value", refusal(path, found, expected));
}

void RequestFields::refuse_part(int key, dom::element value, dom::element wrong,
                                std::string_view expected) {
  const bool is_item = value.is_array() && !wrong.is_array();
  refuse_found(path_of(key), fmt::format("{}{}", describe(wrong), is_item ? " in the list" : ""),
               expected);
}

void RequestFields::refuse_value(std::string_view path, dom::element value,
                                 std::string_view expected) {
  refuse_found(path, describe(value), expected);
}

void RequestFields::refuse_unsupported(std::string_view path, dom::element value) {
  refuse("unsupported",
         fmt::format("{}: found {}; this version does not support it", path, describe(value)));
}

std::string RequestFields::read_id(int key) {
  if (!has(key)) return "";
  std::string json;
  if (at(key).is_string()) {
    append_json_string(json, at(key));
  } else if (at(key).is_int64() || at(key).is_uint64()) {
    json = simdjson::minify(at(key));
  } else {
    refuse(key, "a string or an integer");
  }
  return json;
}

void RequestFields::read_count(int key, int& count) {
  bool on = true;
  if (at(key).get(on) == simdjson::SUCCESS && !on) return;
  int64_t value = -1;
  if (at(key).get(value) != simdjson::SUCCESS || !kLogProbRange.contains(value)) {
    return refuse(key, text_of(kLogProbRange));
  }
  count = static_cast<int>(value);
}

void RequestFields::read_flag(int key, bool& result) {
  if (asks(key)) static_cast<void>(get(key, result, "true or false"));
}

void RequestFields::read_token_ids(int key, dom::element value, std::vector<TokenId>& result) {
  dom::element wrong;
  if (auto tokens = pagedinfer::read_token_ids(value, wrong)) {
    result = std::move(*tokens);
  } else {
    refuse_part(key, value, wrong, expected_token_ids());
  }
}

}  // namespace pagedinfer
