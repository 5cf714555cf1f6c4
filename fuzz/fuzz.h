// What the fuzz targets share. A target parses arbitrary bytes, which may throw Error; require()
// checks what it promises otherwise.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace pagedinfer {

// Aborts if the property does not hold; libFuzzer then keeps the bytes that broke it.
inline void require(bool holds, const char* property) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", property);
  std::abort();
}

}  // namespace pagedinfer
