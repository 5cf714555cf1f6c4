#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

namespace pagedinfer {

// Faults in pages of memory on a background thread, so that a step does not wait for page faults.
// It is only a hint: if the system does not support it (Linux before 5.14) or no thread can be
// started, pages are faulted in when they are touched.
class Prefaulter {
 public:
  Prefaulter() = default;
  ~Prefaulter();  // stops the thread after the 4 MiB at hand
  Prefaulter(const Prefaulter&) = delete;
  Prefaulter& operator=(const Prefaulter&) = delete;

  // Queues memory that will be written, before all memory that will be read. Its contents stay,
  // also what other threads write meanwhile. REQUIRES: the memory stays mapped as long as the
  // Prefaulter lives; of will_read() too.
  void will_write(void* memory, int64_t bytes);
  // Queues memory of a mapped file that will be read.
  void will_read(const void* memory, int64_t bytes);
  // Waits until nothing is queued.
  void finish();

 private:
  struct Range {
    uintptr_t begin, end;
    int advice;
  };

  void add(std::deque<Range>& queue, const Range& range);
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Range> to_write_, to_read_;
  bool busy_ = false, stopping_ = false;
  std::thread thread_;  // started with the first range
};

}  // namespace pagedinfer
