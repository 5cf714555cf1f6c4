#include "cli/command_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/exit_codes.h"
#include "core/refusal.h"
#include "load/version_text.h"
#include "settings/help.h"
#include "settings/table.h"
#include "settings/values.h"

namespace pagedinfer {
namespace {

constexpr size_t kHelpWidth = 100;

std::string wrapped(std::string_view text, size_t width) {
  std::string out;
  while (text.size() > width) {
    const size_t space = text.rfind(' ', width);
    out.append(text.substr(0, space)) += '\n';
    text.remove_prefix(space + 1);
  }
  return out.append(text);
}

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

// The flags of the program and of every subcommand.
void add_common_flags(CLI::App& app) {
  app.allow_extras();
  app.get_formatter()->column_width(kHelpColumn);
  app.set_help_flag("-h,--help", "Print this help and exit.");
  app.set_version_flag("--version", version_text,
                       "Print the version and what it was built with, and exit.");
}

}  // namespace

void set_help(CLI::Option& option, const std::string& group, const std::string& value,
              std::string_view help) {
  option.group(group)->option_text(value)->description(wrapped(help, kHelpWidth - kHelpColumn));
}

std::string help_footer(std::string_view command, std::string_view example, std::string_view text) {
  std::string codes;
  for (const ExitCodeRow& row : kExitCodes) {
    if (row.command != command) continue;
    codes += fmt::format("{} {} {}", codes.empty() ? "Exit codes:" : ",", row.code, row.meaning);
  }
  if (!codes.empty()) codes = "\n" + wrapped(codes + ".", kHelpWidth);
  return fmt::format("\nExample:\n  {}\n\n{}{}", example, wrapped(text, kHelpWidth), codes);
}

void add_setting_flags(CLI::App& command, Config& config, ShownSettings shown,
                       const std::function<bool(const Setting&)>& takes) {
  for (const Setting& setting : kSettings) {
    if (setting.is_flag && takes(setting)) add_flag(command, setting, config, shown);
  }
}

void add_subcommand_flags(CLI::App& app) {
  add_common_flags(app);
  app.set_help_all_flag(kHelpAll, "Print the help with all flags and exit.");
}

void add_program_flags(CLI::App& app, const Page*& page) {
  add_common_flags(app);
  std::string names;
  for (const Page& one : kPages) names += fmt::format("{}{}", names.empty() ? "" : "|", one.name);
  CLI::Option* const option =
      app.add_option_function<std::string>("--generate", [&page, names](const std::string& text) {
        page = std::ranges::find(kPages, text, &Page::name);
        if (page == std::end(kPages)) throw Error(refusal("--generate", shortened(text), names));
      });
  set_help(*option, "Options", names,
           "Print the manual page, or what lets a shell complete the command line, and exit.");
}

CLI::Option* add_own_flag(CLI::App& app, std::string_view name, std::string_view value,
                          const std::function<void(const std::string&)>& give) {
  if (!name.starts_with('-')) {
    return app.add_option_function<std::vector<std::string>>(
        std::string(name), [give](const std::vector<std::string>& words) {
          for (const std::string& word : words) give(word);
        });
  }
  if (value.empty()) return app.add_flag_callback(std::string(name), [give] { give(""); });
  return app.add_option_function<std::string>(std::string(name), give);
}

void check_unused_flags(const std::vector<std::string>& leftovers,
                        std::span<const UnusedSetting> unused) {
  if (leftovers.empty()) return;
  const std::string name = leftovers[0].substr(0, leftovers[0].find('='));
  for (const UnusedSetting& one : unused) {
    if (is_flag_of(*find_setting(one.key), name)) {
      throw Error(fmt::format("{}: {}", name, one.instead));
    }
  }
}

}  // namespace pagedinfer
