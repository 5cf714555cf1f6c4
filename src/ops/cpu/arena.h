#pragma once

#include <cstdint>
#include <vector>

#include "ops/cpu/host_memory.h"

namespace pagedinfer {

// Memory handed out piece by piece and taken back all at once. Once it has seen its largest use
// it asks the system for nothing more.
class Arena {
 public:
  // 64-byte aligned, not cleared, until the next reset().
  void* take(int64_t bytes);
  void reset();

  int64_t used() const { return used_; }
  int64_t max_used() const { return max_used_; }

 private:
  std::vector<HostMemory> chunks_;  // the last one is being filled
  int64_t filled_ = 0;              // of the last chunk
  int64_t used_ = 0, max_used_ = 0;
};

}  // namespace pagedinfer
