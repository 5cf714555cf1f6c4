#pragma once

#include <cstdio>
#include <string_view>

#include "core/error.h"

namespace pagedinfer {

// Writes to standard output and flushes it. Throws Error if that fails.
inline void print_output(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) < text.size() || std::fflush(stdout) != 0) {
    throw Error("standard output: cannot be written");
  }
}

}  // namespace pagedinfer
