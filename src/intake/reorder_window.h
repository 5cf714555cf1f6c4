#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "engine/pull.h"
#include "intake/line_batch.h"

namespace pagedinfer {

// The lines that were read and not yet pulled. One thread adds batches, several workers convert
// them, and their items come out in the order of the lines. At least one worker runs while the
// window is not half full, and more the emptier it is. Knows nothing of what converting means.
class ReorderWindow {
 public:
  struct Limits {
    int64_t max_items, max_tokens;  // as IntakeLimits
    int num_workers;
    int batch_lines;  // maximum lines of a batch
  };
  // `spent` is called for each batch whose items were all pulled, in order.
  ReorderWindow(const Limits& limits, std::function<void(LineBatch&)> spent)
      : limits_(limits), spent_(std::move(spent)) {}

  // Waits until a batch whose first line costs `cost` has room. Returns the maximum cost of the
  // batch; nullopt if the window is stopped.
  std::optional<int64_t> wait_for_room(int64_t cost);
  void add(std::unique_ptr<LineBatch> batch);
  void end();  // no batch comes after this

  // The next batch to convert, which must be given back; null when the window is stopped.
  LineBatch* take();
  void give_back(LineBatch& batch);

  // The next item, as Intake::pull(). Items after a batch that failed are not pulled.
  Pull pull(bool wait, IntakeItem& item);

  // Wakes the reader and the workers for good.
  void stop();
  bool stopped() const { return stopped_; }
  // Of the first batch that failed, if all items before the failure were pulled.
  std::exception_ptr failure() const;

 private:
  // REQUIRES of all these: mutex_ is held.
  bool may_work() const;
  bool has_room(int64_t cost) const;
  bool has_item() const;
  bool has_ended() const;
  void drop_spent();
  void wake();

  const Limits limits_;
  const std::function<void(LineBatch&)> spent_;
  std::atomic<bool> stopped_ = false;  // changes under mutex_
  mutable std::mutex mutex_;
  std::condition_variable ready_, room_, work_;  // wake the puller, the reader, the workers
  // All below is guarded by mutex_. Batches in input order; the first num_taken_ are in work or
  // done.
  std::deque<std::unique_ptr<LineBatch>> batches_;
  size_t num_taken_ = 0;
  int num_active_ = 0;                  // workers that have a batch
  int64_t num_ready_ = 0;               // items that were not pulled yet
  int64_t num_ahead_ = 0;               // lines added and not pulled
  int64_t tokens_ahead_ = 0;            // of these lines, as IntakeLimits counts
  std::optional<int64_t> wanted_room_;  // room that the reader waits for
  bool ended_ = false;
  std::exception_ptr failure_;
};

}  // namespace pagedinfer
