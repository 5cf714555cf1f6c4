#include "ops/cpu/prefaulter.h"

#include <sys/mman.h>

#include <algorithm>
#include <system_error>

#include "ops/cpu/host_memory.h"

namespace pagedinfer {

namespace {

constexpr uintptr_t kPieceBytes = 4 << 20;  // per madvise(); a multiple of large pages

// MADV_POPULATE_READ and _WRITE of Linux 5.14, which older headers lack.
constexpr int kPopulateRead = 22, kPopulateWrite = 23;

}  // namespace

Prefaulter::~Prefaulter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Prefaulter::will_write(void* memory, int64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  add(to_write_, {begin, begin + static_cast<uintptr_t>(bytes), kPopulateWrite});
}

void Prefaulter::will_read(const void* memory, int64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  add(to_read_, {begin, begin + static_cast<uintptr_t>(bytes), kPopulateRead});
}

void Prefaulter::add(std::deque<Range>& queue, const Range& range) {
  if (range.begin >= range.end) return;
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error&) {
      return;
    }
  }
  queue.push_back({range.begin / kPageBytes * kPageBytes, range.end, range.advice});
  changed_.notify_all();
}

void Prefaulter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return to_write_.empty() && to_read_.empty() && !busy_; });
}

void Prefaulter::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !to_write_.empty() || !to_read_.empty(); });
    if (stopping_) return;
    std::deque<Range>& queue = to_write_.empty() ? to_read_ : to_write_;
    Range& range = queue.front();
    const Range piece = {range.begin,
                         std::min(range.end, (range.begin / kPieceBytes + 1) * kPieceBytes), 0};
    const int advice = range.advice;
    range.begin = piece.end;
    if (range.begin == range.end) queue.pop_front();
    busy_ = true;
    lock.unlock();
    (void)madvise(reinterpret_cast<void*>(piece.begin), piece.end - piece.begin, advice);
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace pagedinfer
