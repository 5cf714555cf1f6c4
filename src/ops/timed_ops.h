#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/profile.h"
#include "ops/arithmetic.h"
#include "ops/op_work.h"
#include "ops/passed_on_steps.h"
#include "ops/timing.h"

namespace pagedinfer {

// Times the steps of a device by its own clock and without waiting for it. Their arithmetic must go
// through arithmetic(). Results do not change. A step that the device may replay is timed as one
// operation, except that every kTimedEvery-th is queued eagerly with each operation timed.
class TimedOps final : public PassedOnSteps {
 public:
  static constexpr int kTimedEvery = 16;

  // Calls done(step) for every step, in order, after the device has finished it: when the tokens of
  // the step or of a later one are collected. If a call of a step throws, the step is reported up
  // to that call. REQUIRES: all arguments belong to one device and outlive this.
  TimedOps(StepProtocol& steps, Arithmetic& arithmetic, DeviceTimer& timer,
           std::function<void(const TimedStep&)> done);
  TimedOps(const TimedOps&) = delete;
  TimedOps& operator=(const TimedOps&) = delete;

  Arithmetic& arithmetic() { return *arithmetic_; }

  // The engine has no work until the next step, which then has no gap.
  void idle() { worked_ = false; }

  BatchView stage(const Batch& batch) override;
  void copy_kv(const BatchView& batch, std::span<const KvLayer> cache) override;
  Tensor run(const BatchView& batch, const std::function<Tensor()>& queue) override;
  Ticket sample(Tensor logits, std::span<const SampleRow> rows) override;
  void collect(Ticket ticket, std::span<DrawnToken> out) override;

 private:
  // A step whose marks have not been taken.
  struct Pending {
    TimedStep step = {};
    std::vector<bool> marks = {};  // by mark: whether it ends an operation
    Ticket ticket = 0;             // of its sample(), if there was one
  };

  void mark_gap();
  void mark(const OpName& name, const OpWork& work);
  AttendedKeys keys_of(int window);
  void take_times(Ticket ticket);

  DeviceTimer& timer_;
  std::function<void(const TimedStep&)> done_;
  std::unique_ptr<Arithmetic> arithmetic_;

  int64_t num_replayable_ = 0;  // steps
  bool in_one_piece_ = false;   // the operations being queued are timed together
  bool worked_ = false;         // there was a step, and no idle() since
  Batch batch_ = {};            // the last one staged: query_starts and context_lens
  std::vector<std::pair<int, AttendedKeys>> keys_ = {};  // its keys, by window
  std::deque<Pending> pending_ = {};
  std::vector<double> seconds_ = {};
};

}  // namespace pagedinfer
