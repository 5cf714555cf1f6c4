#include "cli/setting_flags.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/flag_help.h"
#include "settings/help.h"
#include "settings/table.h"
#include "settings/values.h"

namespace pagedinfer {
namespace {

// The placeholder and the default after the flag in --help: "N [16]".
std::string value_text(const Setting& setting) {
  const std::string placeholder = placeholder_of(setting), unless_given = default_of(setting);
  const bool is_shown = !placeholder.empty() && !unless_given.empty();
  return is_shown ? fmt::format("{} [{}]", placeholder, unless_given) : placeholder;
}

// The heading of --help; "": the flag is not shown.
std::string heading_of(const Setting& setting, ShownSettings shown) {
  if (shown == ShownSettings::kAll) return group_name(setting.group);
  return shown == ShownSettings::kUsual && setting.is_usual ? "Usual flags" : "";
}

void add_flag(CLI::App& command, const Setting& setting, Config& config, ShownSettings shown) {
  const Kind kind = setting.field.kind;
  std::string names = flag_of(setting);
  if (setting.letter != 0) names = fmt::format("-{},{}", setting.letter, names);
  CLI::Option* option = nullptr;
  if (kind == Kind::kSwitch) {
    option = command.add_flag_callback(names, [&] { give(setting, true, config); });
  } else if (kind == Kind::kTexts || kind == Kind::kTokenIds) {
    const auto read = [&](const std::vector<std::string>& texts) {
      for (const std::string& text : texts) give(setting.key, text, config);
    };
    option = command.add_option_function<std::vector<std::string>>(names, read);
    option->allow_extra_args(false);
  } else {
    const auto read = [&](const std::string& text) { give(setting.key, text, config); };
    option = command.add_option_function<std::string>(names, read);
  }
  set_help(*option, heading_of(setting, shown), value_text(setting),
           fmt::format("{} {}", help_of(setting), setting.when));
}

}  // namespace

void add_setting_flags(CLI::App& command, Config& config, ShownSettings shown,
                       const std::function<bool(const Setting&)>& takes) {
  for (const Setting& setting : kSettings) {
    if (setting.is_flag && takes(setting)) add_flag(command, setting, config, shown);
  }
}

}  // namespace pagedinfer
