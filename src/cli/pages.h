// The pages that --generate prints.
#pragma once

#include <string>
#include <string_view>

#include "cli/outline.h"

namespace pagedinfer {

// What lets a shell complete subcommands, flags and their values.
std::string bash_completion(const Outline& outline);
std::string zsh_completion(const Outline& outline);
std::string fish_completion(const Outline& outline);

// The manual page pagedinfer(1), in the macros of man(7).
std::string man_page(const Outline& outline);

struct Page {
  std::string_view name;
  std::string (*make)(const Outline&);
};

inline constexpr Page kPages[] = {{"man", man_page},
                                  {"bash", bash_completion},
                                  {"zsh", zsh_completion},
                                  {"fish", fish_completion}};

}  // namespace pagedinfer
