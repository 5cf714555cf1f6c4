#include "output/fingerprint.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <charconv>

#include "core/error.h"
#include "core/json.h"
#include "core/refusal.h"

namespace pagedinfer {

namespace {

std::string_view value_of(const Fingerprint& fingerprint, std::string_view name) {
  for (const auto& [known, value] : fingerprint.settings) {
    if (known == name) return value == "[]" ? "none" : std::string_view(value);  // an empty list
  }
  return "none";
}

int64_t number_of(std::string_view text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// A setting that error records may be the reason to change.
struct RetryRule {
  std::string_view name;
  // Whether records without an error stay the same.
  bool (*keeps)(std::string_view from, std::string_view to);
  std::string_view refusal;  // of any other change
};

constexpr RetryRule kRetryRules[] = {
    // It only makes errors.
    {"strict", [](std::string_view from, std::string_view) { return from == "on"; },
     "only from on to off does it leave finished records as they are"},
    // Without a template every conversation ends in an error, and nothing else reads it. The value
    // is the hash of no text.
    {"chat_template",
     [](std::string_view from, std::string_view) { return from == "0000000000000000"; },
     "only a template where there was none leaves finished records as they are"},
    // Below limit_of_kept().
    {"max_model_len",
     [](std::string_view from, std::string_view to) { return number_of(from) < number_of(to); },
     "only a larger one can leave finished records as they are"},
    {"rope", [](std::string_view, std::string_view) { return false; },
     "with the other max_model_len the model computes every position in another way"},
};

const RetryRule* find_rule(std::string_view name) {
  for (const RetryRule& rule : kRetryRules) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

bool keeps_finished_records(const SettingDifference& change) {
  const RetryRule* const rule = find_rule(change.name);
  return rule != nullptr && rule->keeps(change.a, change.b);
}

// Why --retry-errors does not help against a difference.
std::string retry_refusal(const SettingDifference& change) {
  const RetryRule* const rule = find_rule(change.name);
  return fmt::format("; --retry-errors cannot change {}: {}", shortened(change.name),
                     rule != nullptr ? rule->refusal : "finished records may depend on it");
}

// The flag that gives a setting the value with which the run began, where a default that follows
// the model may be the reason for the other.
std::string flag_back(const SettingDifference& change) {
  if (change.name == "served_model_name") {
    return fmt::format(" (--served-model-name {} gives it the same name)", shortened(change.a));
  }
  return change.name == "quantize" ? fmt::format(" (--quantize {})", shortened(change.a)) : "";
}

template <class IsAllowed>
std::optional<SettingDifference> find_difference(const Fingerprint& a, const Fingerprint& b,
                                                 const IsAllowed& is_allowed) {
  for (const Fingerprint* one : {&b, &a}) {
    for (const auto& [name, value] : one->settings) {
      SettingDifference found = {name, std::string(value_of(a, name)),
                                 std::string(value_of(b, name))};
      if (found.a != found.b && !is_allowed(found)) return found;
    }
  }
  return std::nullopt;
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
  return find_difference(a, b, [](const SettingDifference&) { return false; });
}

void require_same(const std::string& path, const Fingerprint& began, const Fingerprint& found,
                  bool retry_errors) {
  const auto difference = find_difference(began, found, [&](const SettingDifference& each) {
    return retry_errors && keeps_finished_records(each);
  });
  if (!difference) return;
  throw Error(fmt::format(
      "{}: the run began with {} = {}, found {}{}; resume it with what it began with{}, or "
      "--overwrite begins a new one",
      path, shortened(difference->name), shortened(difference->a), shortened(difference->b),
      retry_errors ? retry_refusal(*difference) : "", flag_back(*difference)));
}

// truncate_prompt_tokens of -1 leaves room for one token.
std::optional<int64_t> limit_of_kept(const Fingerprint& began, const Fingerprint& found) {
  const std::string_view from = value_of(began, "max_model_len");
  if (from == value_of(found, "max_model_len")) return std::nullopt;
  return number_of(from) - 1;
}

}  // namespace pagedinfer
