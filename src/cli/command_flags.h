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
#include "settings/setting.h"
#include "settings/values.h"

namespace pagedinfer {

inline constexpr size_t kHelpColumn = 36;  // where the sentences of --help begin

// Sets what --help shows for a flag: the heading `group`, then `value` after the flag's name (the
// placeholder, and the default in brackets), then `help`, broken into lines of at most 100 columns.
void set_help(CLI::Option& option, const std::string& group, const std::string& value,
              std::string_view help);

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

// Adds a flag or, if `name` has no dashes, words without a flag. `value` is "" for a flag without a
// value.
CLI::Option* add_own_flag(CLI::App& app, std::string_view name, std::string_view value,
                          const std::function<void(const std::string&)>& give);

// Gives `app` the flags of `command` and the footer of --help, which shows all flags if
// `shows_all`. Parsing fills `options`. REQUIRES: `options` outlives `app`.
template <class Options>
void add_flags(CLI::App& app, const Command<Options>& command, Options& options, bool shows_all) {
  for (const CommandFlag<Options>& flag : command.own_flags()) {
    const auto give = [&flag, &options](const std::string& text) {
      flag.give(flag, text, options);
    };
    CLI::Option* const option = add_own_flag(app, flag.flag, flag.value, give);
    const std::string value = flag.unless_given.empty()
                                  ? std::string(flag.value)
                                  : fmt::format("{} [{}]", flag.value, flag.unless_given);
    const std::string when = flag.when.empty() ? "" : fmt::format(" {}", flag.when);
    set_help(*option, std::string(flag.group), value, fmt::format("{}{}", flag.help, when));
  }
  std::string_view hidden;
  if (command.config != nullptr) {
    const bool has_own = !command.own_flags().empty();
    const ShownSettings shown = shows_all ? ShownSettings::kAll
                                : has_own ? ShownSettings::kNone
                                          : ShownSettings::kUsual;
    add_setting_flags(app, command.config(options), shown, [&](const Setting& setting) {
      return command.takes_setting(setting, flag_of(setting));
    });
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
