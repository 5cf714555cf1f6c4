#include <fmt/format.h>

#include <string>
#include <string_view>

#include "request/line_fields.h"

namespace pagedinfer {

namespace dom = simdjson::dom;

namespace {

bool asks_for_nothing(dom::element value, Neutral neutral) {
  if (value.is_null()) return true;
  if (neutral == Neutral::kNever) return false;
  if (neutral == Neutral::kTrue) return value.is_bool() && bool(value);
  double number = 0;
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) return text.empty() || text == "none";
  if (value.get(number) == simdjson::SUCCESS) {
    return neutral == Neutral::kZero ? number <= 0 : neutral == Neutral::kOne && number == 1;
  }
  if (value.is_array()) return dom::array(value).size() == 0;
  if (value.is_object()) return dom::object(value).size() == 0;
  return !bool(value);
}

}  // namespace

void check_supported(RequestFields& fields) {
  for (int key = 0; key < kNumKeys; ++key) {
    const KeyInfo& known = kKeys[static_cast<size_t>(key)];
    const bool is_settings = known.kind == KeyKind::kSettingsObject;
    if ((known.kind != KeyKind::kUnsupported && !is_settings) || !fields.has(key)) continue;
    if (asks_for_nothing(fields.at(key), known.neutral)) continue;
    std::string help;
    if (is_settings) {
      help = fmt::format(", put its keys into the {}", fields.where().empty() ? "line" : "body");
    } else if (!known.instead.empty()) {
      help = fmt::format(", use {}", known.instead);
    }
    fields.refuse("unsupported",
                  fmt::format("{}{}: found {}; this version does not support it{}", fields.where(),
                              known.name, describe(fields.at(key)), help));
  }
}

}  // namespace pagedinfer
