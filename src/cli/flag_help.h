// How --help shows the flags of a subcommand.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace pagedinfer {

inline constexpr size_t kHelpColumn = 36;  // where the sentences of --help begin

// Sets what --help shows for a flag: the heading `group`, then `value` after the flag's name (the
// placeholder, and the default in brackets), then `help`, broken into lines of at most 100 columns.
void set_help(CLI::Option& option, const std::string& group, const std::string& value,
              std::string_view help);

// The end of --help: an example, `text`, and the exit codes of the subcommand.
std::string help_footer(std::string_view command, std::string_view example, std::string_view text);

}  // namespace pagedinfer
