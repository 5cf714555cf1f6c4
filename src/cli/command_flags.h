// The flags of a subcommand that takes some of `run` and some of its own.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "cli/flag_help.h"
#include "jobs/command_flag.h"
#include "settings/setting.h"
#include "settings/values.h"

namespace pagedinfer {

// Gives `command` its own flags; parsing fills `options`, which must stay.
template <class Options>
void add_own_flags(CLI::App& command, std::span<const CommandFlag<Options>> flags,
                   Options& options) {
  for (const CommandFlag<Options>& flag : flags) {
    const auto give = [&flag, &options](const std::string& text) {
      flag.give(flag, text, options);
    };
    CLI::Option* const option =
        flag.value.empty() ? command.add_flag_callback(std::string(flag.flag), [give] { give(""); })
                           : command.add_option_function<std::string>(std::string(flag.flag), give);
    const std::string value = flag.unless_given.empty()
                                  ? std::string(flag.value)
                                  : fmt::format("{} [{}]", flag.value, flag.unless_given);
    set_help(*option, std::string(flag.group), value, fmt::format("{} {}", flag.help, flag.when));
  }
}

// Whether the subcommand takes a setting as `run` does.
template <class Options>
bool takes_setting(const Setting& setting, std::span<const UnusedSetting> unused,
                   std::span<const CommandFlag<Options>> own) {
  return std::ranges::none_of(unused,
                              [&](const UnusedSetting& one) { return one.key == setting.key; }) &&
         std::ranges::none_of(
             own, [&](const CommandFlag<Options>& flag) { return flag.flag == flag_of(setting); });
}

// Refuses flags of `run` that the subcommand has no use for, and says what to do instead.
// `leftovers` are the words that are no flags of the subcommand.
void check_unused_flags(const std::vector<std::string>& leftovers,
                        std::span<const UnusedSetting> unused);

}  // namespace pagedinfer
