// What our own messages say of a command line, which CLI11 would say in its style or not at all.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <vector>

namespace pagedinfer {

// The long names of a command's flags, with dashes.
std::vector<std::string> flags_of(const CLI::App& command);

// Refuses words that are no flags, the first one by name, and names the flag that may be meant: the
// flag for another program's name, else the flag of nearly the same letters. `help` says where the
// known flags are.
void check_leftovers(const std::vector<std::string>& leftovers,
                     const std::vector<std::string>& known, const std::string& help);

// Checks that flags have values, before CLI11 parses: it takes any following word for a value.
void check_values(const CLI::App& command, std::span<const char* const> words);

// Refuses a flag that was given twice.
void check_repeated(const CLI::App& command);

}  // namespace pagedinfer
