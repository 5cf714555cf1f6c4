#include "ops/timed_ops.h"

#include <algorithm>

#include "ops/intercept.h"

namespace pagedinfer {

TimedOps::TimedOps(StepProtocol& steps, Arithmetic& arithmetic, DeviceTimer& timer,
                   std::function<void(const TimedStep&)> done)
    : PassedOnSteps(steps), timer_(timer), done_(std::move(done)) {
  const auto around = [this](const OpName& name, const OpWork& work,
                             const std::function<void()>& queue) {
    queue();
    mark(name, work);
  };
  arithmetic_ = intercept(arithmetic, {.around = around, .attended_keys = [this](int window) {
                                         return keys_of(window);
                                       }});
}

// The first step of a shape is never replayed, so timing by operation begins with the second.
Tensor TimedOps::run(const BatchView& batch, const std::function<Tensor()>& queue) {
  if (!may_replay() || num_replayable_++ % kTimedEvery == 1) return queue();
  struct Piece {
    bool& is_open;
    ~Piece() { is_open = false; }
  };
  Tensor out;
  {
    in_one_piece_ = true;
    const Piece piece{in_one_piece_};
    out = PassedOnSteps::run(batch, queue);
  }
  mark({kReplayName}, {});
  return out;
}

// Ends an interval without an operation.
void TimedOps::mark_gap() {
  timer_.mark();
  pending_.back().marks.push_back(false);
}

// Ends an operation, which began where the previous interval ended.
void TimedOps::mark(const OpName& name, const OpWork& work) {
  if (in_one_piece_) return;
  timer_.mark();
  Pending& step = pending_.back();
  step.step.ops.push_back({.name = name, .work = work});
  step.marks.push_back(true);
}

BatchView TimedOps::stage(const Batch& batch) {
  Pending& step = pending_.emplace_back();
  step.step.decode_only =
      batch.num_tokens() == batch.num_seqs() && batch.num_logits() == batch.num_seqs();
  if (worked_) step.step.gap = 0;
  worked_ = true;
  keys_.clear();
  batch_.query_starts = batch.query_starts;
  batch_.context_lens = batch.context_lens;
  mark_gap();
  const BatchView view = PassedOnSteps::stage(batch);
  mark_gap();
  return view;
}

void TimedOps::copy_kv(const BatchView& batch, std::span<const KvLayer> cache) {
  PassedOnSteps::copy_kv(batch, cache);
  mark({kCopyKvName}, copy_kv_work(batch.copies, cache));
}

// Computed once per window: layers with the same window attend to the same keys.
AttendedKeys TimedOps::keys_of(int window) {
  auto found = std::ranges::find(keys_, window, &std::pair<int, AttendedKeys>::first);
  if (found == keys_.end()) {
    keys_.emplace_back(window, attended_keys(batch_, window));
    found = keys_.end() - 1;
  }
  return found->second;
}

StepProtocol::Ticket TimedOps::sample(Tensor logits, std::span<const SampleRow> rows) {
  mark_gap();
  const Ticket ticket = PassedOnSteps::sample(logits, rows);
  mark({kSampleName}, work_of({logits}));
  pending_.back().ticket = ticket;
  return ticket;
}

void TimedOps::collect(Ticket ticket, std::span<DrawnToken> out) {
  PassedOnSteps::collect(ticket, out);
  take_times(ticket);
}

// REQUIRES: the device has finished the work up to this sample().
void TimedOps::take_times(Ticket ticket) {
  const auto last = std::ranges::find(pending_, ticket, &Pending::ticket);
  if (last == pending_.end()) return;
  for (auto left = last - pending_.begin() + 1; left > 0; --left) {
    Pending& pending = pending_.front();
    TimedStep& step = pending.step;
    seconds_.resize(pending.marks.size());
    timer_.take(seconds_);
    size_t op = 0;
    for (size_t i = 0; i < seconds_.size(); ++i) {
      if (pending.marks[i]) {
        step.ops[op++].seconds = seconds_[i];
      } else if (step.gap) {
        *step.gap += seconds_[i];
      }
    }
    done_(step);
    pending_.pop_front();
  }
}

}  // namespace pagedinfer
