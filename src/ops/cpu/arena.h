#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/cpu/host_memory.h"

namespace pagedinfer {

// Memory that is handed out in pieces and taken back all at once. It grows to the largest use
// between two reset() and allocates nothing after that.
class Arena {
 public:
  // Maps so much at once and touches nothing. REQUIRES: nothing has been taken.
  void reserve(int64_t bytes) { chunks_.push_back(HostMemory::of_large_pages(bytes, "scratch")); }
  std::span<char> reserved() const;

  // A piece of memory, 64-byte aligned and not cleared, valid until the next reset().
  void* take(int64_t bytes);
  void reset();

  int64_t held_bytes() const;  // of the system
  int64_t used() const { return used_; }
  int64_t max_used() const { return max_used_; }

 private:
  std::vector<HostMemory> chunks_;  // pieces are taken from the last one
  int64_t filled_ = 0;              // bytes of the last chunk
  int64_t used_ = 0, max_used_ = 0;
};

}  // namespace pagedinfer
