// What orders the threads of a block, told to the thread sanitizer in a program that is linked with
// it. Each thread is a fiber of the sanitizer, and only __syncthreads() orders them: no kernel
// relies on the exchanges of a warp for that.
#pragma once

#include <cstddef>
#include <vector>

extern "C" {
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned);
[[gnu::weak]] void __tsan_switch_to_fiber(void*, unsigned);
[[gnu::weak]] void __tsan_acquire(void*);
[[gnu::weak]] void __tsan_release(void*);
[[gnu::weak]] void __tsan_write_range(void*, unsigned long);
}

namespace emulated::races {

inline bool are_seen() { return __tsan_create_fiber != nullptr; }

// What comes before a release() of `what` comes before what follows an acquire() of it.
inline void release(void* what) {
  if (are_seen()) __tsan_release(what);
}
inline void acquire(void* what) {
  if (are_seen()) __tsan_acquire(what);
}
inline void write(void* to, size_t bytes) {
  if (are_seen()) __tsan_write_range(to, bytes);
}

// Comes right before the switch to another stack: a thread's, or the scheduler's if it is -1.
inline void switch_to(int thread) {
  if (!are_seen()) return;
  static std::vector<void*> fibers = {__tsan_get_current_fiber()};  // the scheduler's first
  while (static_cast<int>(fibers.size()) < thread + 2) fibers.push_back(__tsan_create_fiber(1));
  constexpr unsigned kOrdersNothing = 1;
  __tsan_switch_to_fiber(fibers[static_cast<size_t>(thread + 1)], kOrdersNothing);
}

}  // namespace emulated::races
