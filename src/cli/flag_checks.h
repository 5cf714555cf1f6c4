// Checks of a command line for which CLI11 has no message, or none in our style.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pagedinfer {

// The long names of a command's flags, with dashes.
std::vector<std::string> flags_of(const CLI::App& command);

// Throws Error for the first of the words that are not flags. The message names the flag that may
// be meant: our flag for another program's name, a flag with nearly the same letters, else
// `word_flag` if the word has no dashes. `help` tells the user where all flags are listed.
void check_leftovers(const std::vector<std::string>& leftovers,
                     const std::vector<std::string>& known, const std::string& help,
                     std::string_view word_flag = "");

// Checks that flags have values. REQUIRES: CLI11 has not parsed yet, because it takes any following
// word for a value.
void check_values(const CLI::App& command, std::span<const char* const> words);

// Refuses a flag that was given twice.
void check_repeated(const CLI::App& command);

}  // namespace pagedinfer
