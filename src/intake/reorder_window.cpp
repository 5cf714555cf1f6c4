#include "intake/reorder_window.h"

#include <algorithm>
#include <utility>

namespace pagedinfer {

std::optional<int64_t> ReorderWindow::wait_for_room(int64_t cost) {
  std::unique_lock lock(mutex_);
  wanted_room_ = cost;
  room_.wait(lock, [&] { return stopped_ || has_room(cost); });
  wanted_room_.reset();
  if (stopped_) return std::nullopt;
  return limits_.max_tokens - tokens_ahead_;
}

void ReorderWindow::add(std::unique_ptr<LineBatch> batch) {
  const std::lock_guard lock(mutex_);
  num_ahead_ += std::ssize(batch->lines);
  tokens_ahead_ += batch->cost;
  batches_.push_back(std::move(batch));
  wake();
}

void ReorderWindow::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  ready_.notify_all();
}

LineBatch* ReorderWindow::take() {
  std::unique_lock lock(mutex_);
  work_.wait(lock, [&] { return stopped_ || may_work(); });
  if (stopped_) return nullptr;
  LineBatch& batch = *batches_[num_taken_++];
  ++num_active_;
  wake();
  return &batch;
}

void ReorderWindow::give_back(LineBatch& batch) {
  const std::lock_guard lock(mutex_);
  --num_active_;
  batch.done = true;
  num_ready_ += std::ssize(batch.items);
  tokens_ahead_ += batch.cost_when_done - batch.cost;
  drop_spent();
  wake();
  ready_.notify_all();
}

Pull ReorderWindow::pull(bool wait, IntakeItem& item) {
  std::unique_lock lock(mutex_);
  if (wait) ready_.wait(lock, [&] { return has_item() || has_ended(); });
  if (!has_item()) return has_ended() ? Pull::kEnded : Pull::kLater;
  LineBatch& batch = *batches_.front();
  item = std::move(batch.items[batch.next++]);
  --num_ready_;
  --num_ahead_;
  tokens_ahead_ -= memory_in_tokens(item);
  drop_spent();
  wake();
  return Pull::kItem;
}

void ReorderWindow::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  work_.notify_all();
  room_.notify_all();
}

std::exception_ptr ReorderWindow::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

// The more items are ready, the fewer workers may run.
bool ReorderWindow::may_work() const {
  const int64_t half = std::max<int64_t>(1, limits_.max_items / 2);
  const int64_t missing = std::max<int64_t>(0, half - num_ready_);
  const int64_t max_active = 1 + (limits_.num_workers - 1) * missing / half;
  return num_taken_ < batches_.size() && num_active_ < max_active;
}

bool ReorderWindow::has_room(int64_t cost) const {
  if (num_ahead_ == 0) return true;
  return num_ahead_ + limits_.batch_lines <= limits_.max_items &&
         tokens_ahead_ + cost <= limits_.max_tokens;
}

bool ReorderWindow::has_item() const {
  return !failure_ && num_taken_ > 0 && batches_.front()->done && !batches_.front()->spent();
}

bool ReorderWindow::has_ended() const {
  return (failure_ || (ended_ && batches_.empty())) && num_active_ == 0;
}

void ReorderWindow::drop_spent() {
  while (!failure_ && num_taken_ > 0 && batches_.front()->spent()) {
    LineBatch& batch = *batches_.front();
    spent_(batch);
    failure_ = batch.failure;
    batches_.pop_front();
    --num_taken_;
  }
  if (!failure_ || stopped_) return;
  stopped_ = true;
  work_.notify_all();
  room_.notify_all();
}

// Wakes a worker and the reader if they may continue.
void ReorderWindow::wake() {
  if (may_work()) work_.notify_one();
  if (wanted_room_ && has_room(*wanted_room_)) room_.notify_one();
}

}  // namespace pagedinfer
