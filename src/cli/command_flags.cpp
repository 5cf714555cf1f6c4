#include "cli/command_flags.h"

#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "core/refusal.h"
#include "load/version_text.h"
#include "settings/table.h"

namespace pagedinfer {

namespace {

// The flags of the program and of every subcommand.
void add_common_flags(CLI::App& app) {
  app.allow_extras();
  app.get_formatter()->column_width(kHelpColumn);
  app.set_help_flag("-h,--help", "Print this help and exit.");
  app.set_version_flag("--version", version_text,
                       "Print the version and what it was built with, and exit.");
}

}  // namespace

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
