#include "output/fingerprint.h"

#include <fmt/format.h>
#include <simdjson.h>

#include "core/error.h"
#include "core/json.h"
#include "core/refusal.h"

namespace pagedinfer {

namespace {

std::string_view value_of(const Fingerprint& fingerprint, std::string_view name) {
  for (const auto& [known, value] : fingerprint.settings) {
    if (known == name) return value;
  }
  return "none";
}

}  // namespace

std::string fingerprint_line(const Fingerprint& fingerprint) {
  std::string line;
  JsonWriter json(line);
  json.begin_object();
  for (const auto& [name, value] : fingerprint.settings) json.field(name, value);
  json.end_object();
  return line += '\n';
}

Fingerprint parse_fingerprint(const std::string& path, std::string_view line) {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  Fingerprint fingerprint;
  bool good = parser.parse(line.data(), line.size()).get(object) == simdjson::SUCCESS;
  if (good) {
    for (const auto& [name, element] : object) {
      std::string_view value;
      good = good && element.get(value) == simdjson::SUCCESS;
      fingerprint.set(name, value);
    }
  }
  if (!good) throw Error(path + ": line 3: expected the settings of a run, as a JSON object");
  return fingerprint;
}

std::optional<SettingDifference> first_difference(const Fingerprint& a, const Fingerprint& b) {
  for (const Fingerprint* one : {&b, &a}) {
    for (const auto& [name, value] : one->settings) {
      const std::string_view in_a = value_of(a, name), in_b = value_of(b, name);
      if (in_a != in_b) return SettingDifference{name, std::string(in_a), std::string(in_b)};
    }
  }
  return std::nullopt;
}

void require_same(const std::string& path, const Fingerprint& began, const Fingerprint& found) {
  const auto difference = first_difference(began, found);
  if (!difference) return;
  const std::string same_name =
      difference->name == "served_model_name"
          ? fmt::format(" (--served-model-name {} gives it the same name)",
                        shortened(difference->a))
          : "";
  throw Error(fmt::format(
      "{}: the run began with {} = {}, found {}; resume it with what it began with{}, or "
      "--overwrite begins a new one",
      path, shortened(difference->name), shortened(difference->a), shortened(difference->b),
      same_name));
}

}  // namespace pagedinfer
