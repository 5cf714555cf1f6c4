// Timing for benchmarks on the CPU, and the two bounds that they are compared with: reading memory
// and multiply-adds.
#pragma once

#include <immintrin.h>
#include <time.h>

#include <algorithm>
#include <vector>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/thread_pool.h"
#include "ops/peaks.h"

namespace pagedinfer {

enum class Clock : uint8_t { kWall, kThread };  // kThread: CPU time of the calling thread

inline double now(Clock clock) {
  timespec time;
  clock_gettime(clock == Clock::kWall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class F>
double seconds(Clock clock, const F& f) {
  const double start = now(clock);
  f();
  return now(clock) - start;
}

struct Pair {
  double work, bound;
};

// Median seconds of the work and of its bound, measured alternately because a machine's speed
// drifts.
template <class Work, class Bound>
Pair medians(Clock clock, int times, const Work& work, const Bound& bound) {
  std::vector<double> a, b;
  work();
  for (int i = 0; i < times; ++i) {
    b.push_back(seconds(clock, bound));
    a.push_back(seconds(clock, work));
  }
  std::nth_element(a.begin(), a.begin() + times / 2, a.end());
  std::nth_element(b.begin(), b.begin() + times / 2, b.end());
  return {a[times / 2], b[times / 2]};
}

inline volatile int64_t sink;

// Reads a range of memory in four streams.
__attribute__((target("avx2"))) inline void read_piece(const char* from, int64_t bytes) {
  const int64_t quarter = bytes / 4 / 64 * 64;
  __m256i sum[4] = {};
  for (int64_t i = 0; i < quarter; i += 64) {
    for (int s = 0; s < 4; ++s) {
      const auto* at = reinterpret_cast<const __m256i*>(from + s * quarter + i);
      sum[s] = _mm256_or_si256(sum[s],
                               _mm256_or_si256(_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)));
    }
  }
  const __m256i all =
      _mm256_or_si256(_mm256_or_si256(sum[0], sum[1]), _mm256_or_si256(sum[2], sum[3]));
  sink = _mm256_extract_epi64(all, 0);
}

inline void read_all(ThreadPool& pool, const void* from, int64_t bytes) {
  constexpr int64_t kPiece = 1 << 18;
  pool.parallel_for(static_cast<int>((bytes + kPiece - 1) / kPiece), [&](int i, int) {
    read_piece(static_cast<const char*>(from) + i * kPiece, std::min(kPiece, bytes - i * kPiece));
  });
}

// Bare multiply-adds on each thread. Returns how many operations they are together.
inline double run_peak(ThreadPool& pool, CpuIsa isa) {
  constexpr int kRounds = 300'000;
  const std::vector<char> numbers = random_numbers(DType::kF32, kBareBytes / size_of(DType::kF32));
  double operations = 0;
  pool.parallel_for(pool.num_threads(), [&](int task, int) {
    const double done = kernels_of(isa).product_float_float.bare(numbers.data(), kRounds);
    if (task == 0) operations = pool.num_threads() * done;
  });
  return operations;
}

}  // namespace pagedinfer
