#pragma once

#include <string>

#include "cli/outline.h"

namespace pagedinfer {

// The manual page pagedinfer(1), in the macros of man(7).
std::string man_page(const Outline& outline);

}  // namespace pagedinfer
