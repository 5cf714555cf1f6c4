#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/thread_pool.h"

namespace pagedinfer {

// What the parts of a CPU's backend share: its options, their kernels, and its threads.
struct CpuState {
  explicit CpuState(const CpuOptions& asked)
      : options(asked), kernels(kernels_of(asked.isa)), pool(asked.num_threads, asked.cpus) {}
  CpuState(const CpuState&) = delete;
  CpuState& operator=(const CpuState&) = delete;

  // Calls f(i) for each i in [0, rows), in parallel if at least 65,536 floats are touched.
  template <class F>
  void for_rows(int64_t rows, int64_t floats, const F& f) {
    constexpr int64_t kFloatsPerThread = 32768;  // at least
    const int64_t ranges = std::clamp<int64_t>(floats / kFloatsPerThread, 1,
                                               std::min<int64_t>(rows, pool.num_threads()));
    if (rows == 0) return;
    pool.parallel_for(static_cast<int>(ranges), [&](int range, int) {
      const int64_t last = rows * (range + 1) / ranges;
      for (int64_t i = rows * range / ranges; i < last; ++i) f(i);
    });
  }

  const CpuOptions options;
  const Kernels& kernels;
  ThreadPool pool;
};

}  // namespace pagedinfer
