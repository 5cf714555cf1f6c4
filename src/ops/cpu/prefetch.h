// Software prefetching: reads that will follow are announced to the memory, a few cache lines at a
// time, while something else is computed. Lines go to the second-level cache: more of them can be
// in flight there than to the first level, which is also too small, and where rows at a stride of 4
// KiB evict each other.
#pragma once

#include "ops/cpu/vector.h"

namespace pagedinfer {
namespace {

struct Span {
  const char* at;
  int bytes;
};

// Prefetches a list of spans, in order.
class SpanPrefetcher {
 public:
  static constexpr int kDistance = 256;  // lines between prefetching and reading

  SpanPrefetcher(const Span* first, const Span* end) : span_(first), end_(end) {}

  FORCE_INLINE void fetch(int lines) {
    for (; lines > 0 && span_ < end_; --lines) {
      _mm_prefetch(span_->at + offset_, _MM_HINT_T1);
      offset_ += 64;
      if (offset_ >= span_->bytes) offset_ = 0, ++span_;
    }
  }
  // Passes over spans of at least so many lines, which have been prefetched before.
  void skip(int lines) {
    for (; lines > 0 && span_ < end_; ++span_) lines -= (span_->bytes + 63) / 64;
  }

 private:
  const Span *span_, *end_;
  int offset_ = 0;
};
struct NoPrefetcher {
  void fetch(int) {}
};

// Prefetches the first `run` bytes of row after row, which lie `stride` bytes apart. Does not stop
// at the last row: a prefetch of any address is harmless.
struct RowPrefetcher {
  const char* row;
  int64_t stride, run;
  int64_t at = 0;
  FORCE_INLINE void fetch(int lines) {
    for (int i = 0; i < lines; ++i) _mm_prefetch(row + at + i * 64, _MM_HINT_T1);
    at += lines * 64;
    if (at >= run) at = 0, row += stride;
  }
};

}  // namespace
}  // namespace pagedinfer
