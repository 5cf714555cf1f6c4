// What the fuzz targets share. A target reads bytes from anywhere and may answer with an Error;
// what it promises about the answer is checked with require().
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace pagedinfer {

// Ends the process: libFuzzer then keeps the bytes that broke the property.
inline void require(bool holds, const char* property) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", property);
  std::abort();
}

}  // namespace pagedinfer
