#include "ops/cpu/thread_pool.h"

#include <immintrin.h>

#include <chrono>

#include "core/check.h"
#include "core/denormals.h"
#include "core/start_thread.h"

namespace pagedinfer {

namespace {

bool has_task(uint64_t ticket) { return static_cast<uint32_t>(ticket) < ticket >> 32; }

}  // namespace

template <class Done>
bool ThreadPool::spin_until(const Done& done) const {
  if (!spins_) return done();
  constexpr auto kSpinTime = std::chrono::microseconds(50);
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() - start < kSpinTime);
  return false;
}

ThreadPool::ThreadPool(int num_threads, const CpuList& cpus)
    : cpus_(cpus), spins_(num_threads <= num_cores()) {
  CHECK(num_threads >= 1);
  CHECK(cpus.cpus.empty() || std::ssize(cpus.cpus) >= num_threads);
  workers_.reserve(num_threads - 1);
  try {
    for (int i = 1; i < num_threads; ++i) {
      workers_.push_back(start_thread("computes", [this, i] {
        if (const std::optional<int> cpu = cpu_of(i)) pin_to(*cpu);
        wait_and_work(i);
      }));
    }
  } catch (...) {
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stopping_ = true;
  ++epoch_;
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

std::optional<int> ThreadPool::cpu_of(int worker) const {
  if (cpus_.cpus.empty()) return std::nullopt;
  return cpus_.cpus[worker];
}

void ThreadPool::run(int count, const void* context, Function function) {
  const FlushDenormals guard;
  if (count <= 1 || workers_.empty()) {
    for (int i = 0; i < count; ++i) function(context, i, 0);
    return;
  }
  std::optional<PinnedTo> pinned;
  if (const std::optional<int> cpu = cpu_of(0)) pinned.emplace(*cpu);
  context_ = context;
  function_ = function;
  unfinished_.store(count, std::memory_order_relaxed);
  ticket_.store(static_cast<uint64_t>(count) << 32, std::memory_order_release);
  ++epoch_;
  if (sleeping_ > 0) epoch_.notify_all();
  work(0);
  const auto done = [this] { return unfinished_.load(std::memory_order_acquire) == 0; };
  while (!spin_until(done)) {
    const int left = unfinished_.load(std::memory_order_acquire);
    if (left > 0) unfinished_.wait(left, std::memory_order_acquire);
  }
}

void ThreadPool::work(int worker) {
  while (has_task(ticket_.load(std::memory_order_relaxed))) {
    const uint64_t ticket = ticket_.fetch_add(1, std::memory_order_acquire);
    if (!has_task(ticket)) return;
    function_(context_, static_cast<int>(static_cast<uint32_t>(ticket)), worker);
    unfinished_.fetch_sub(1, std::memory_order_release);
    unfinished_.notify_one();
  }
}

void ThreadPool::wait_and_work(int worker) {
  const FlushDenormals guard;
  while (!stopping_) {
    const int epoch = epoch_;
    const auto called = [this] {
      return stopping_ || has_task(ticket_.load(std::memory_order_relaxed));
    };
    if (!spin_until(called)) {
      ++sleeping_;  // before wait() reads the epoch: a later change of it is followed by a notify
      epoch_.wait(epoch);
      --sleeping_;
    }
    work(worker);
  }
}

}  // namespace pagedinfer
