// What a processor can do at most: multiplications of numbers that stay in its registers, and
// reading.
#pragma once

#include "ops/cpu/vector.h"

namespace pagedinfer {
namespace {

constexpr int kBareChains = 12;  // of sums that depend on each other; more than a latency

// Says to the compiler that a register changes, so that it computes nothing ahead of a loop.
template <class T>
FORCE_INLINE void renew(T& a) {
  asm volatile("" : "+v"(a));
}

// Runs step(sum, a, b) on each of the chains in each round. A step renews `a` in place, because a
// copy would take a place in the processor's queue beside each multiplication.
template <class T, class Step>
FORCE_INLINE void run_chains(const void* numbers, int rounds, const Step& step) {
  T sum[kBareChains] = {}, a = {}, b = {};
  memcpy(&a, numbers, sizeof a);
  memcpy(&b, (const char*)numbers + sizeof a, sizeof b);
  for (int i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (T& s : sum) step(s, a, b);
  }
  for (T& s : sum) renew(s);
}

// Without hardware fma the peak is a multiplication and an addition.
inline double bare_floats(const void* numbers, int rounds) {
  run_chains<Native>(numbers, rounds, [](Native& sum, Native& a, Native b) {
    renew(a);
    if constexpr (kHardwareFma) {
      sum = fma_native(a, b, sum);
    } else {
      sum = a * b + sum;
    }
  });
  return 2.0 * kNativeLanes * kBareChains * rounds;
}

// Reads in four streams.
inline void read_memory(const char* from, int64_t bytes) {
  constexpr int kStreams = 4, kLine = 64;
  const int64_t part = bytes / kStreams / kLine * kLine;
  i32x16 found[kStreams] = {};
  for (int64_t at = 0; at < part; at += kLine) {
    for (int s = 0; s < kStreams; ++s) {
      found[s] = found[s] | load((const int32_t*)(from + s * part + at));
    }
  }
  for (i32x16& stream : found) {
    for (i32x16::Native& lanes : stream.part) renew(lanes);
  }
}

}  // namespace
}  // namespace pagedinfer
