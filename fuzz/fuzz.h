// What the fuzz targets share. A target parses arbitrary bytes, which may throw Error; require()
// checks what it promises otherwise.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

namespace pagedinfer {

// Aborts if the property does not hold; libFuzzer then keeps the bytes that broke it.
inline void require(bool holds, const char* property) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", property);
  std::abort();
}

// Requires that the bytes of a file's tensors do not overlap.
inline void require_apart(std::vector<std::span<const std::byte>> tensors) {
  std::ranges::sort(tensors, {}, [](const auto& bytes) { return bytes.data(); });
  for (size_t i = 1; i < tensors.size(); ++i) {
    require(tensors[i - 1].data() + tensors[i - 1].size() <= tensors[i].data(),
            "tensors do not overlap");
  }
}

}  // namespace pagedinfer
