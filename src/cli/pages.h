// The pages that --generate prints.
#pragma once

#include <string>
#include <string_view>

#include "cli/completions.h"
#include "cli/man_page.h"
#include "cli/outline.h"

namespace pagedinfer {

struct Page {
  std::string_view name;
  std::string (*make)(const Outline&);
};

inline constexpr Page kPages[] = {{"man", man_page},
                                  {"bash", bash_completion},
                                  {"zsh", zsh_completion},
                                  {"fish", fish_completion}};

}  // namespace pagedinfer
