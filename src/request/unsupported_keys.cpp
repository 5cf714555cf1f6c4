#include "request/unsupported_keys.h"

#include <fmt/format.h>

#include <string_view>

namespace pagedinfer {

namespace dom = simdjson::dom;

namespace {

// Whether a value means the same as an absent key.
bool asks_for_nothing(dom::element value, KeyKind kind) {
  double number = 0;
  std::string_view text;
  switch (value.type()) {
    case dom::element_type::NULL_VALUE: return true;
    case dom::element_type::BOOL:
      return bool(value) == (kind == KeyKind::kUnsupportedButTrue) &&
             kind != KeyKind::kUnsupportedEvenIfFalse;
    case dom::element_type::ARRAY:
      return dom::array(value).size() == 0 ||
             (kind == KeyKind::kUnsupportedButText && dom::array(value).size() == 1 &&
              dom::array(value).at(0).get(text) == simdjson::SUCCESS && text == "text");
    case dom::element_type::OBJECT:
      return dom::object(value).size() == 0 ||
             (kind == KeyKind::kUnsupportedButText && dom::object(value).size() == 1 &&
              value["type"].get(text) == simdjson::SUCCESS && text == "text");
    case dom::element_type::STRING:
      text = value;
      return text.empty() || (kind == KeyKind::kUnsupportedButNone && text == "none") ||
             (kind == KeyKind::kUnsupportedButLeft && text == "left");
    default: break;
  }
  if (value.get(number) != simdjson::SUCCESS) return false;
  return (kind == KeyKind::kUnsupportedButOne && number == 1) ||
         (kind == KeyKind::kUnsupportedButZero && number == 0) ||
         (kind == KeyKind::kUnsupportedAboveZero && number <= 0);
}

// Whether the value cannot be valid for an unsupported key in any program: a string, list or object
// where a number is expected. It is reported as invalid instead of unsupported.
bool is_wrong_type(dom::element value, KeyKind kind) {
  const bool is_number = kind == KeyKind::kUnsupportedButOne ||
                         kind == KeyKind::kUnsupportedButZero ||
                         kind == KeyKind::kUnsupportedAboveZero;
  return is_number && (value.is_string() || value.is_array() || value.is_object());
}

}  // namespace

void check_supported(RequestFields& fields) {
  for (int key = 0; key < kNumKeys; ++key) {
    const auto [name, kind, instead] = kKeys[static_cast<size_t>(key)];
    if (kind < KeyKind::kUnsupported || !fields.has(key)) continue;
    if (asks_for_nothing(fields.at(key), kind)) continue;
    if (is_wrong_type(fields.at(key), kind)) fields.refuse(key, "a number");
    if (kind == KeyKind::kUnsupportedSettings) {
      fields.refuse(
          "unsupported",
          fmt::format("{}{}: found {}; this version does not read it, put its keys into the {}",
                      fields.where(), name, describe(fields.at(key)),
                      fields.where().empty() ? "line" : "body"));
    }
    fields.refuse("unsupported", fmt::format("{}{}: found {}; this version does not support it{}{}",
                                             fields.where(), name, describe(fields.at(key)),
                                             instead.empty() ? "" : ", use ", instead));
  }
}

}  // namespace pagedinfer
