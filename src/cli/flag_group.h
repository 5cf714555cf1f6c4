// Flags of a subcommand, as --help shows them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace pagedinfer {

inline constexpr size_t kHelpColumn = 36;  // where the sentences of --help begin

// Puts a flag under a heading of --help. `value` stands behind it: what it takes, and its default
// in brackets; `help` is broken into lines that fit beside the names of the flags.
void describe(CLI::Option& option, const std::string& group, const std::string& value,
              std::string_view help);

}  // namespace pagedinfer
