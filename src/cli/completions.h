// What lets a shell complete subcommands, flags and their values.
#pragma once

#include <string>

#include "cli/outline.h"

namespace pagedinfer {

std::string bash_completion(const Outline& outline);
std::string zsh_completion(const Outline& outline);
std::string fish_completion(const Outline& outline);

}  // namespace pagedinfer
