// Where one text stands in another, in time linear in both: a template may look for anything.
#pragma once

#include <cstddef>
#include <string_view>

#include "jinja/budget.h"

namespace pagedinfer::jinja {

// The first place of `part` in `text` from `begin` on, as std::string_view::find().
size_t find_text(std::string_view text, std::string_view part, size_t begin = 0);

// The last place, as std::string_view::rfind().
size_t find_last_text(std::string_view text, std::string_view part, Budget& budget);

}  // namespace pagedinfer::jinja
