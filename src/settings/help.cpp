#include "settings/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <variant>

#include "settings/values.h"

namespace pagedinfer {
namespace {

// The alternative names of the values: all names except the first of each value.
std::string other_names_of(const Setting& setting) {
  std::string names;
  for (const Choice& choice : setting.choices) {
    const auto first = std::ranges::find(setting.choices, choice.value, &Choice::value);
    if (first->name == choice.name) continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", choice.name);
  }
  return names;
}

// "1 to 65536" or "1 or more"; "" if the setting has no range.
std::string range_of(const Setting& setting) {
  if (setting.field.kind == Kind::kBytes) return "";
  if (const auto* const range = std::get_if<IntegerRange>(&setting.range)) {
    const bool is_open = range->to >= kMaxCount;
    return is_open ? fmt::format("{} or more", range->from)
                   : fmt::format("{} to {}", range->from, range->to);
  }
  if (const auto* const range = std::get_if<NumberRange>(&setting.range)) {
    if (range->above) return fmt::format("above {}, at most {}", range->from, range->to);
    if (range->below) return fmt::format("{} or more, below {}", range->from, range->to);
    return fmt::format("{} to {}", range->from, range->to);
  }
  return "";
}

}  // namespace

std::string group_name(Group group) {
  switch (group) {
    case Group::kJob: return "Job";
    case Group::kModel: return "Model";
    case Group::kDevice: return "Device";
    case Group::kCache: return "Cache";
    case Group::kScheduling: return "Scheduling";
    case Group::kForm: return "Form of the answer";
    case Group::kSampling: return "Sampling";
  }
  return "";
}

std::string default_of(const Setting& setting) {
  const Value value = setting.field.get(Config{});
  const bool is_absent = std::holds_alternative<std::monostate>(value);
  if (is_absent && !setting.choices.empty()) return std::string(setting.choices.front().name);
  std::string text = text_of(setting, value);
  if (is_absent || text.empty() || text == "[]") text = setting.absent;
  return setting.generation_key.empty() ? text : fmt::format("model's, {}", text);
}

std::string placeholder_of(const Setting& setting) {
  if (!setting.value.empty()) return std::string(setting.value);
  switch (setting.field.kind) {
    case Kind::kSwitch: return "";
    case Kind::kOnOff: return "on|off";
    case Kind::kChoice: return names_of(setting, "|");
    case Kind::kInteger:
    case Kind::kSeed: return "N";
    case Kind::kNumber: return "F";
    case Kind::kBytes: return "BYTES";
    case Kind::kPath:
    case Kind::kText:
    case Kind::kTexts: return "TEXT";
    case Kind::kTokenIds: return "N,N,...";
    case Kind::kShard: return "I/N";
    case Kind::kCpuList: return "N,N-N,...";
  }
  return "";
}

std::string help_of(const Setting& setting) {
  std::string text(setting.help);
  if (const std::string range = range_of(setting); !range.empty()) {
    text += fmt::format(" Takes {}.", range);
  }
  if (const std::string names = other_names_of(setting); !names.empty()) {
    text += fmt::format(" Takes {} too.", names);
  }
  return text;
}

}  // namespace pagedinfer
