// The flags of a subcommand, its own and those settings of `run` that it takes, and how --help
// shows them.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/pages.h"
#include "commands/command.h"
#include "settings/config.h"
#include "settings/help.h"
#include "settings/setting.h"
#include "settings/values.h"

namespace pagedinfer {

// The end of --help: an example, `text`, and the exit codes of the subcommand.
std::string help_footer(std::string_view command, std::string_view example, std::string_view text);

// Which settings --help shows: all under the headings of their groups, the usual ones under a
// heading of their own, or none.
enum class ShownSettings : uint8_t { kAll, kUsual, kNone };

// Gives `command` the flags of the settings for which `takes` is true. Parsing fills `config`.
// REQUIRES: `config` outlives `command`.
void add_setting_flags(CLI::App& command, Config& config, ShownSettings shown,
                       const std::function<bool(const Setting&)>& takes);

inline constexpr const char* kHelpAll = "--help-all";

// Gives `app` the flags that every subcommand has.
void add_subcommand_flags(CLI::App& app);

// Gives `app` the flags of the program itself. Parsing sets `page` if a page is asked for.
// REQUIRES: `page` outlives `app`.
void add_program_flags(CLI::App& app, const Page*& page);

// Adds a flag under a heading of --help; "": the flag is not shown. `give` gets each text after it.
void add_flag(CLI::App& app, const FlagRow& flag, const std::string& heading,
              const std::string& unless_given, const std::function<void(std::string_view)>& give);

// Gives `app` the flags of `command` and the footer of --help, which shows all flags if
// `shows_all`. Parsing fills `options`. REQUIRES: `options` outlives `app`.
template <class Options>
void add_flags(CLI::App& app, const Command<Options>& command, Options& options, bool shows_all) {
  for (const FlagOf<Options>& flag : command.own_flags()) {
    add_flag(app, flag, group_name(flag.group), default_of(flag),
             [&](std::string_view text) { give_text(flag, text, options); });
  }
  std::string_view hidden;
  if (command.config != nullptr) {
    const bool has_own = !command.own_flags().empty();
    const ShownSettings shown = shows_all ? ShownSettings::kAll
                                : has_own ? ShownSettings::kNone
                                          : ShownSettings::kUsual;
    add_setting_flags(app, command.config(options), shown,
                      [&](const Setting& setting) { return command.takes_setting(setting); });
    hidden = shows_all ? ""
             : has_own ? "Takes flags of run too: --help-all shows which. "
                       : "--help-all shows all flags. ";
  }
  app.footer(
      help_footer(command.name, command.example, fmt::format("{}{}", hidden, command.footer)));
}

// Refuses flags of `run` that the subcommand does not take; the Error says what to do instead.
// `leftovers` are the words that are not flags of the subcommand.
void check_unused_flags(const std::vector<std::string>& leftovers,
                        std::span<const UnusedSetting> unused);

}  // namespace pagedinfer
