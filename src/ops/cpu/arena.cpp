#include "ops/cpu/arena.h"

#include <algorithm>

namespace pagedinfer {

std::span<char> Arena::reserved() const {
  if (chunks_.empty()) return {};
  return {chunks_.back().data(), static_cast<size_t>(chunks_.back().size())};
}

int64_t Arena::held_bytes() const {
  int64_t bytes = 0;
  for (const HostMemory& chunk : chunks_) bytes += chunk.size();
  return bytes;
}

void* Arena::take(int64_t bytes) {
  constexpr int64_t kMinChunk = 1 << 20;
  const int64_t rounded = (bytes + 63) / 64 * 64;
  if (chunks_.empty() || filled_ + rounded > chunks_.back().size()) {
    chunks_.push_back(HostMemory::of_large_pages(std::max({rounded, used_, kMinChunk}), "scratch"));
    filled_ = 0;
  }
  void* const piece = chunks_.back().data() + filled_;
  filled_ += rounded;
  used_ += rounded;
  max_used_ = std::max(max_used_, used_);
  return piece;
}

void Arena::reset() {
  if (chunks_.size() > 1) {  // replaced by one that is large enough
    chunks_.clear();
    chunks_.push_back(HostMemory::of_large_pages(max_used_, "scratch"));
  }
  filled_ = used_ = 0;
}

}  // namespace pagedinfer
