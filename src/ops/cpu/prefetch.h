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

// Prefetches a list of spans, in order, but two of the same size line by line in turn: a memory
// gives scattered pages faster when two are asked for at once. Loops fetch with a copy, which the
// compiler keeps in registers, and store it behind the loop.
class SpanPrefetcher {
 public:
  static constexpr int kDistance = 256;  // lines between prefetching and reading

  SpanPrefetcher(const Span* first, const Span* end) : next_(first), end_(end) { begin_span(); }

  FORCE_INLINE void fetch(int lines) {
    for (; lines > 0; --lines) {
      _mm_prefetch(at_, _MM_HINT_T1);
      const char* const following = at_ + step_;
      at_ = other_;
      other_ = following;
      if (--left_ == 0) begin_span();
    }
  }
  // Passes over spans of at least so many lines, which have been prefetched before.
  void skip(int lines) {
    for (; lines > 0 && step_ > 0; begin_span()) lines -= left_;
  }

 private:
  // Behind the last span its last lines are prefetched again and again, which costs little.
  void begin_span() {
    if (next_ == end_) {
      step_ = 0;
      left_ = INT32_MAX;
      return;
    }
    at_ = next_->at;
    left_ = (next_->bytes + 63) / 64;
    if (next_ + 1 < end_ && next_[1].bytes == next_->bytes) {
      other_ = next_[1].at;
      step_ = 64;
      left_ *= 2;
      next_ += 2;
    } else {
      other_ = at_ + 64;
      step_ = 128;
      ++next_;
    }
  }

  const Span *next_, *end_;
  const char *at_ = nullptr, *other_ = nullptr;  // the lines that follow, and what follows each
  int64_t step_ = 0;
  int left_ = INT32_MAX;  // lines, of one span or two
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
