#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <type_traits>

#include "ops/intercept.h"
#include "ops/step_protocol.h"

namespace pagedinfer {

// Forwards to a device's steps and arithmetic, and lets a test observe the calls and make them
// fail.
class WatchedOps final : public StepProtocol {
 public:
  WatchedOps(StepProtocol& steps, Arithmetic& inner)
      : steps_(steps),
        arithmetic_(intercept(
            inner, {.around = [this](const OpName&, const OpWork&,
                                     const std::function<void()>& queue) { call(queue); }})) {}
  WatchedOps(const WatchedOps&) = delete;
  WatchedOps& operator=(const WatchedOps&) = delete;

  // Called before every call of a step (done = false) and after it (true). May throw.
  std::function<void(bool done)> around = [](bool) {};
  std::function<void(const Batch&)> on_stage = [](const Batch&) {};  // before it
  std::function<void()> on_run = [] {};                              // before it
  std::function<void()> on_collect = [] {};                          // before it
  std::function<void(Tensor logits, std::span<const SampleRow>)> on_sample =
      [](Tensor, std::span<const SampleRow>) {};  // before it

  // The number of tickets that are not collected, and its maximum.
  std::set<Ticket> unasked = {};
  size_t max_unasked = 0;
  int64_t num_copies = 0, num_staged_copies = 0;  // asked for in all, and by the latest copy_kv()
  bool copies = false;                            // the latest call is copy_kv(), and it threw
  bool collects = false;                          // the latest call is, or threw in, collect()

  Arithmetic& arithmetic() { return *arithmetic_; }

  bool may_replay() const override { return steps_.may_replay(); }
  DType activation_type() const override { return steps_.activation_type(); }
  Tensor scratch(DType dtype, int64_t rows, int64_t cols) override {
    return call([&] { return steps_.scratch(dtype, rows, cols); });
  }
  void expect(std::span<const SampleRow> rows) override { steps_.expect(rows); }
  BatchView stage(const Batch& batch) override {
    collects = copies = false;
    on_stage(batch);
    return call([&] { return steps_.stage(batch); });
  }
  void copy_kv(const BatchView& batch, std::span<const KvLayer> cache) override {
    copies = true;
    num_staged_copies = std::ssize(batch.copies);
    num_copies += num_staged_copies;
    call([&] { steps_.copy_kv(batch, cache); });
    copies = false;
  }
  Tensor run(const BatchView& batch, const std::function<Tensor()>& queue) override {
    on_run();
    return steps_.run(batch, queue);
  }
  Ticket sample(Tensor logits, std::span<const SampleRow> rows) override {
    on_sample(logits, rows);
    const Ticket ticket = call([&] { return steps_.sample(logits, rows); });
    unasked.insert(ticket);
    max_unasked = std::max(max_unasked, unasked.size());
    return ticket;
  }
  void collect(Ticket ticket, std::span<DrawnToken> out) override {
    unasked.erase(ticket);
    collects = true;
    on_collect();
    call([&] { steps_.collect(ticket, out); });
  }

 private:
  template <class F>
  std::invoke_result_t<const F&> call(const F& f) {
    around(false);
    if constexpr (std::is_void_v<std::invoke_result_t<const F&>>) {
      f();
      around(true);
    } else {
      auto result = f();
      around(true);
      return result;
    }
  }

  StepProtocol& steps_;
  std::unique_ptr<Arithmetic> arithmetic_;
};

}  // namespace pagedinfer
