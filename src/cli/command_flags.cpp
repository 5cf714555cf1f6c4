#include "cli/command_flags.h"

#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "core/exit_codes.h"
#include "core/refusal.h"
#include "load/version_text.h"
#include "settings/table.h"

namespace pagedinfer {
namespace {

constexpr size_t kHelpWidth = 100;
constexpr size_t kHelpColumn = 36;  // where the sentences of --help begin

std::string wrapped(std::string_view text, size_t width) {
  std::string out;
  while (text.size() > width) {
    const size_t space = text.rfind(' ', width);
    out.append(text.substr(0, space)) += '\n';
    text.remove_prefix(space + 1);
  }
  return out.append(text);
}

// Sets what --help shows for a flag: the heading `group`, then `value` after the flag's name (the
// placeholder, and the default in brackets), then `help`.
void set_help(CLI::Option& option, const std::string& group, const std::string& value,
              std::string_view help) {
  option.group(group)->option_text(value)->description(wrapped(help, kHelpWidth - kHelpColumn));
}

// The heading of --help; "": the flag is not shown.
std::string heading_of(const Setting& setting, ShownSettings shown) {
  if (shown == ShownSettings::kAll) return group_name(setting.group);
  return shown == ShownSettings::kUsual && setting.is_usual ? "Usual flags" : "";
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
    if (!setting.is_flag || !takes(setting)) continue;
    add_flag(command, setting, heading_of(setting, shown), default_of(setting),
             [&](std::string_view text) { give_text(setting, text, config); });
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

void add_flag(CLI::App& app, const FlagRow& flag, const std::string& heading,
              const std::string& unless_given, const std::function<void(std::string_view)>& give) {
  std::string names = flag_of(flag);
  if (flag.letter != 0) names = fmt::format("-{},{}", flag.letter, names);
  CLI::Option* option = nullptr;
  if (flag.kind == Kind::kSwitch) {
    option = app.add_flag_callback(names, [give] { give(""); });
  } else if (takes_several(flag)) {
    const auto read = [give](const std::vector<std::string>& texts) {
      for (const std::string& text : texts) give(text);
    };
    option = app.add_option_function<std::vector<std::string>>(names, read);
    option->allow_extra_args(flag.kind == Kind::kWords);
  } else {
    const auto read = [give](const std::string& text) { give(text); };
    option = app.add_option_function<std::string>(names, read);
  }
  const std::string placeholder = placeholder_of(flag);
  const bool has_default = !placeholder.empty() && !unless_given.empty();
  set_help(*option, heading,
           has_default ? fmt::format("{} [{}]", placeholder, unless_given) : placeholder,
           fmt::format("{}{}{}", help_of(flag), flag.when.empty() ? "" : " ", flag.when));
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
