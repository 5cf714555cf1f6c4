#include "grammar/schema_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace pagedinfer {

namespace dom = simdjson::dom;

namespace {

bool is_number(dom::element value) {
  return value.is_int64() || value.is_uint64() || value.is_double();
}

}  // namespace

std::optional<dom::element> find_key(dom::element object, std::string_view key) {
  dom::element found;
  if (!object.is_object() || object[key].get(found) != simdjson::SUCCESS) return std::nullopt;
  return found;
}

bool equal_values(dom::element a, dom::element b) {
  if (a.is_int64() && b.is_int64()) return int64_t(a) == int64_t(b);
  if (is_number(a) && is_number(b)) return double(a) == double(b);
  if (a.type() != b.type()) return false;
  switch (a.type()) {
    case dom::element_type::NULL_VALUE: return true;
    case dom::element_type::BOOL: return bool(a) == bool(b);
    case dom::element_type::STRING: return std::string_view(a) == std::string_view(b);
    case dom::element_type::ARRAY: {
      const dom::array x = a, y = b;
      return std::equal(x.begin(), x.end(), y.begin(), y.end(), equal_values);
    }
    default: {
      const dom::object x = a, y = b;
      return x.size() == y.size() && std::ranges::all_of(x, [&](const auto& field) {
               const auto other = find_key(b, field.key);
               return other && equal_values(field.value, *other);
             });
    }
  }
}

bool is_of_type(dom::element value, std::string_view type) {
  if (type == "number") return is_number(value);
  if (type == "integer") return is_number(value) && double(value) == std::floor(double(value));
  return (type == "null" && value.is_null()) || (type == "boolean" && value.is_bool()) ||
         (type == "string" && value.is_string()) || (type == "array" && value.is_array()) ||
         (type == "object" && value.is_object());
}

std::optional<Elements> listed_values(dom::element schema) {
  Elements values;
  if (const auto constant = find_key(schema, "const")) {
    values = {*constant};
  } else if (const auto all = find_key(schema, "enum")) {
    const dom::array array = *all;
    values = {array.begin(), array.end()};
  } else {
    return std::nullopt;
  }
  if (const auto type = find_key(schema, "type")) {
    std::erase_if(values,
                  [&](dom::element value) { return !is_of_type(value, std::string_view(*type)); });
  }
  return values;
}

std::optional<Elements> distinct_values(dom::element root, dom::element schema) {
  constexpr std::array<std::string_view, 5> kKeys = {"const", "description", "enum", "title",
                                                     "type"};
  if (const auto target = find_key(schema, "$ref")) {
    std::string_view pointer;
    const bool is_definition =
        target->get(pointer) == simdjson::SUCCESS &&
        (pointer.starts_with("#/$defs/") || pointer.starts_with("#/definitions/"));
    if (!is_definition || dom::object(schema).size() > 1 ||
        root.at_pointer(std::string(pointer.substr(1))).get(schema) != simdjson::SUCCESS) {
      return std::nullopt;
    }
  }
  if (!schema.is_object()) return std::nullopt;
  for (const auto [name, value] : dom::object(schema)) {
    if (std::ranges::find(kKeys, name) == kKeys.end()) return std::nullopt;
    if (name == "type" && !value.is_string()) return std::nullopt;
    if (name == "enum" && !value.is_array()) return std::nullopt;
  }
  if (find_key(schema, "const") && find_key(schema, "enum")) return std::nullopt;
  const auto values = listed_values(schema);
  if (!values) return std::nullopt;
  Elements distinct;
  for (const dom::element value : *values) {
    if (value.is_array() || value.is_object()) return std::nullopt;
    if (value.type() == dom::element_type::UINT64) return std::nullopt;  // above 64 bits
    const auto is_same = [&](dom::element other) { return equal_values(value, other); };
    if (std::ranges::none_of(distinct, is_same)) distinct.push_back(value);
    if (std::ssize(distinct) > kMaxLists) return std::nullopt;
  }
  return distinct;
}

std::optional<std::vector<Elements>> lists_without_repeats(const Elements& values, int64_t min,
                                                           int64_t max) {
  const int64_t num_values = std::ssize(values);
  max = std::min(max, num_values);
  int64_t num_lists = 0, num_of_length = 1;
  for (int64_t length = 0; length <= max; ++length) {
    if (length > 0) num_of_length *= num_values - length + 1;
    num_of_length = std::min(num_of_length, kMaxLists + 1);
    if (length >= min) num_lists += num_of_length;
    if (num_lists > kMaxLists) return std::nullopt;
  }
  std::vector<Elements> lists;
  Elements list;
  std::vector<bool> used(values.size());
  const auto extend = [&](const auto& self) -> void {
    if (std::ssize(list) >= min) lists.push_back(list);
    if (std::ssize(list) >= max) return;
    for (size_t i = 0; i < values.size(); ++i) {
      if (used[i]) continue;
      used[i] = true;
      list.push_back(values[i]);
      self(self);
      list.pop_back();
      used[i] = false;
    }
  };
  if (num_lists > 0) extend(extend);
  return lists;
}

}  // namespace pagedinfer
