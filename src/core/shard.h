#pragma once

#include <cstdint>

namespace pagedinfer {

// One of `count` parts of a file: the lines whose number less 1 is `index` modulo `count`.
struct Shard {
  int64_t index = 0, count = 1;
};

}  // namespace pagedinfer
