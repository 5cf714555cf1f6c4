#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

namespace pagedinfer {

// Makes pages of memory present in the background, so that a step does not pay for the first
// touch of what it uses. Only a hint: where the system cannot (Linux before 5.14), or no thread
// can start, pages become present when they are touched.
class Prefaulter {
 public:
  Prefaulter() = default;
  ~Prefaulter();  // stops within a piece of a few MiB
  Prefaulter(const Prefaulter&) = delete;
  Prefaulter& operator=(const Prefaulter&) = delete;

  // Memory that will be written. Goes before all that will be read. What it holds stays, also what
  // others write to it meanwhile.
  // REQUIRES, of both: the memory stays mapped as long as the Prefaulter lives.
  void will_write(void* memory, int64_t bytes);
  // Memory that will be read, of a mapped file.
  void will_read(const void* memory, int64_t bytes);
  // Waits until all of it is present or was given up.
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
