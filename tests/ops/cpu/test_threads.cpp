#include <doctest/doctest.h>
#include <xmmintrin.h>

#include <atomic>
#include <numeric>
#include <vector>

#include "core/cpu_list.h"
#include "ops/cpu/arena.h"
#include "ops/cpu/thread_pool.h"

using namespace pagedinfer;

TEST_CASE("a pool runs every task once, on distinct workers at a time") {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    std::vector<std::atomic<bool>> busy(threads);
    for (int round = 0; round < 2000; ++round) {
      const int count = round % 37;
      std::vector<std::atomic<int>> runs(count);
      std::atomic<int> overlaps = 0;
      pool.parallel_for(count, [&](int task, int worker) {
        overlaps += busy[worker].exchange(true);
        ++runs[task];
        busy[worker] = false;
      });
      CHECK(overlaps == 0);
      for (const auto& n : runs) CHECK(n == 1);
    }
  }
}

TEST_CASE("the caller sees what tasks wrote, also after the pool slept") {
  ThreadPool pool(3);
  std::vector<int64_t> values(1000);
  for (int round = 0; round < 20; ++round) {
    pool.parallel_for(1000, [&](int task, int) { values[task] += task; });
    if (round % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (int i = 0; i < 1000; ++i) CHECK(values[i] == 20 * i);
}

TEST_CASE("tasks compute without denormals and leave the caller's mode alone") {
  const unsigned before = _mm_getcsr();
  ThreadPool pool(3);
  std::vector<float> results(3, -1.0f);
  std::atomic<int> started = 0;
  pool.parallel_for(3, [&](int, int worker) {
    ++started;  // and wait for the others, so that each thread gets a task
    while (started < 3) std::this_thread::yield();
    volatile float tiny = 1e-39f;
    results[worker] = tiny * 2.0f;
  });
  for (const float x : results) CHECK(x == 0.0f);
  CHECK((_mm_getcsr() & 0x8040) == (before & 0x8040));
}

TEST_CASE("each worker of a pinned pool stays on its processor, and the caller is free between") {
  const CpuList all = allowed_cpus();
  const int threads = static_cast<int>(all.cpus.size());
  ThreadPool pool(threads, all);
  std::atomic<int> started = 0;
  pool.parallel_for(threads, [&](int, int worker) {
    ++started;  // and wait for the others, so that each thread gets a task
    while (started < threads) std::this_thread::yield();
    CHECK(allowed_cpus() == CpuList{{all.cpus[worker]}});
  });
  CHECK(allowed_cpus() == all);
}

TEST_CASE("an arena gives disjoint aligned pieces and ends with one chunk") {
  Arena arena;
  for (int step = 0; step < 3; ++step) {
    arena.reset();
    std::vector<std::pair<char*, int64_t>> pieces;
    for (const int64_t bytes : {1, 64, 65, 3 << 20, 0, 1000, 2 << 20}) {
      pieces.emplace_back(static_cast<char*>(arena.take(bytes)), bytes);
    }
    for (size_t i = 0; i < pieces.size(); ++i) {
      CHECK(reinterpret_cast<uintptr_t>(pieces[i].first) % 64 == 0);
      for (size_t j = 0; j < i; ++j) {
        CHECK((pieces[i].first >= pieces[j].first + pieces[j].second ||
               pieces[j].first >= pieces[i].first + pieces[i].second));
      }
    }
    CHECK(arena.max_used() == 64 + 64 + 128 + (3 << 20) + 0 + 1024 + (2 << 20));
  }
}
