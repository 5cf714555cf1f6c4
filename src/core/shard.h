#pragma once

#include <cstdint>

namespace pagedinfer {

// One of `count` parts of a file. Line n, counted from 1, belongs to it if (n - 1) % count ==
// index.
struct Shard {
  int64_t index = 0, count = 1;
};

}  // namespace pagedinfer
