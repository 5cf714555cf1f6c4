#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "core/cpu_list.h"

namespace pagedinfer {

// Threads that run the tasks of one parallel_for() at a time; the calling thread is one of them.
// Between two parallel_for() they spin for a moment, so that the next one starts at once, then
// sleep. Threads that are more than the processors sleep at once: while one spins, another one
// that has work may wait for its processor.
class ThreadPool {
 public:
  // Unless `cpus` is empty, worker i runs on cpus[i] only. Worker 0, the calling thread, does so
  // within parallel_for(): threads that it starts between inherit where it may run.
  // REQUIRES: there are num_threads of them.
  explicit ThreadPool(int num_threads, const CpuList& cpus = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(index, worker) for every index in [0, count), with FlushDenormals, and returns when
  // all have ended. `worker` is the number of the thread, in [0, num_threads()). REQUIRES: a task
  // does not throw and does not call parallel_for().
  template <class Task>
  void parallel_for(int count, const Task& task) {
    run(count, &task, [](const void* context, int index, int worker) noexcept {
      (*static_cast<const Task*>(context))(index, worker);
    });
  }

 private:
  using Function = void (*)(const void* context, int index, int worker) noexcept;

  std::optional<int> cpu_of(int worker) const;
  void run(int count, const void* context, Function function);
  void stop();
  void work(int worker);           // takes tasks until none is left
  void wait_and_work(int worker);  // the body of a thread

  // Polls done() until it is true or a moment has passed; returns its last value.
  template <class Done>
  bool spin_until(const Done& done) const;

  const CpuList cpus_;  // empty: threads are not pinned
  const bool spins_;

  // Upper half: number of tasks of the running job. Lower half: the next task to take. The job, and
  // with it the two fields below, does not change before all tasks that were taken have ended.
  std::atomic<uint64_t> ticket_ = 0;
  const void* context_ = nullptr;
  Function function_ = nullptr;

  alignas(64) std::atomic<int> unfinished_ = 0;
  alignas(64) std::atomic<int> epoch_ = 0;  // changes with every job
  std::atomic<int> sleeping_ = 0;
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace pagedinfer
