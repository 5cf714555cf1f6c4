#include "settings/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "settings/values.h"

namespace pagedinfer {
namespace {

// The alternative names of the values: all names except the first of each value.
std::string other_names_of(const FlagRow& flag) {
  std::string names;
  for (const Choice& choice : flag.choices) {
    const auto first = std::ranges::find(flag.choices, choice.value, &Choice::value);
    if (first->name == choice.name) continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", choice.name);
  }
  return names;
}

// "1 to 65536" or "1 or more"; "" if the setting has no range.
std::string range_of(const FlagRow& flag) {
  if (flag.kind == Kind::kBytes || flag.kind == Kind::kLengths) return "";
  if (const auto* const range = std::get_if<IntegerRange>(&flag.range)) {
    const bool is_open = range->to >= kMaxCount;
    return is_open ? fmt::format("{} or more", range->from)
                   : fmt::format("{} to {}", range->from, range->to);
  }
  if (const auto* const range = std::get_if<NumberRange>(&flag.range)) {
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
    case Group::kWorkload: return "Workload";
    case Group::kMeasurement: return "Measurement";
    case Group::kComparison: return "Comparison";
    case Group::kPlan: return "Plan";
    case Group::kInfo: return "Info";
    case Group::kMerge: return "Merge";
  }
  return "";
}

std::string default_of(const FlagRow& flag, const Value& value) {
  const bool is_absent = std::holds_alternative<std::monostate>(value);
  if (is_absent && !flag.choices.empty()) return std::string(flag.choices.front().name);
  std::string text = text_of(flag, value);
  if (is_absent || text.empty() || text == "[]") text = flag.absent;
  return flag.generation_key.empty() ? text : fmt::format("model's, {}", text);
}

std::string placeholder_of(const FlagRow& flag) {
  if (!flag.value.empty()) return std::string(flag.value);
  switch (flag.kind) {
    case Kind::kSwitch: return "";
    case Kind::kOnOff: return "on|off";
    case Kind::kChoice: return names_of(flag, "|");
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
    case Kind::kLengths: return "A-B";
    case Kind::kFlags: return "\"FLAGS\"";
    case Kind::kWords: return "FILE...";
  }
  return "";
}

std::string help_of(const FlagRow& flag) {
  std::string text(flag.help);
  if (const std::string range = range_of(flag); !range.empty()) {
    text += fmt::format(" Takes {}.", range);
  }
  if (const std::string names = other_names_of(flag); !names.empty()) {
    text += fmt::format(" Takes {} too.", names);
  }
  return text;
}

}  // namespace pagedinfer
