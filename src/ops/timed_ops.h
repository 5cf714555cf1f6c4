#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/profile.h"
#include "ops/arithmetic.h"
#include "ops/device_timer.h"
#include "ops/op_work.h"
#include "ops/step_protocol.h"

namespace pagedinfer {

// Times the steps of a device, on its own time, without waiting for it: their arithmetic has to go
// through arithmetic(). Changes nothing that is computed. Steps that the device may replay are
// timed as one piece, but every kTimedEvery-th: that one is queued as it comes, with each of its
// operations timed.
class TimedOps final : public StepProtocol {
 public:
  static constexpr int kTimedEvery = 16;

  // `done` is given every step, in order, once the device is known to be past it: when the tokens
  // of it or of a later one are collected. A step of which a call threw is given as far as it came.
  // REQUIRES: all of one device, which outlives this.
  TimedOps(StepProtocol& steps, Arithmetic& arithmetic, DeviceTimer& timer,
           std::function<void(const TimedStep&)> done);
  TimedOps(const TimedOps&) = delete;
  TimedOps& operator=(const TimedOps&) = delete;

  Arithmetic& arithmetic() { return *arithmetic_; }

  // There is nothing to do until the next step: no gap in front of it.
  void idle() { worked_ = false; }

  BatchView stage(const Batch& batch) override;
  Tensor scratch(DType dtype, int64_t rows, int64_t cols) override;
  DType activation_type() const override { return steps_.activation_type(); }
  Tensor run(const BatchView& batch, const std::function<Tensor()>& queue) override;
  bool may_replay() const override { return steps_.may_replay(); }
  Ticket sample(Tensor logits, std::span<const SampleRow> rows) override;
  void collect(Ticket ticket, std::span<TokenId> out) override;

 private:
  // The step's times are known when its marks are taken: one for each of `marks`.
  struct Pending {
    TimedStep step = {};
    std::vector<bool> marks = {};  // whether an operation lies before it
    Ticket ticket = 0;             // of its sample(), if there was one
  };

  void mark_gap();
  void mark(const OpName& name, const OpWork& work);
  AttendedKeys keys_of(int window);
  void take_times(Ticket ticket);

  StepProtocol& steps_;
  DeviceTimer& timer_;
  std::function<void(const TimedStep&)> done_;
  std::unique_ptr<Arithmetic> arithmetic_;

  int64_t num_replayable_ = 0;  // steps
  bool in_one_piece_ = false;   // the operations being queued are timed together
  bool worked_ = false;         // there has been a step, and nothing but work since
  Batch batch_ = {};            // the last one staged: query_starts and context_lens
  std::vector<std::pair<int, AttendedKeys>> keys_ = {};  // its keys, by window
  std::deque<Pending> pending_ = {};
  std::vector<double> seconds_ = {};
};

}  // namespace pagedinfer
