#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/profile.h"
#include "ops/device_timer.h"
#include "ops/op_work.h"
#include "ops/ops.h"

namespace pagedinfer {

// Times another Ops: every call that belongs to a step, on the device's own time, without waiting
// for the device. Both outlive it. Changes nothing that the other one computes. Steps that it may
// replay are timed as one piece, but every kTimedEvery-th: that one is queued as it comes, with
// each of its operations timed.
class TimedOps final : public Ops {
 public:
  static constexpr int kTimedEvery = 16;

  // `done` is given every step, in order, once the device is known to be past it: when the tokens
  // of it or of a later one are collected. A step of which a call threw is given as far as it came.
  TimedOps(Ops& ops, DeviceTimer& timer, std::function<void(const TimedStep&)> done)
      : ops_(ops), timer_(timer), done_(std::move(done)) {}

  // There is nothing to do until the next step: no gap in front of it.
  void idle() { worked_ = false; }

  std::string description() const override { return ops_.description(); }
  Tensor allocate(DType dtype, int64_t rows, int64_t cols) override;
  Tensor upload(Tensor host, DType dtype) override;
  DType matrix_type(DType of_file, DType compute) const override;
  int64_t uploaded_bytes(Tensor host, DType dtype) const override;
  KvLayer allocate_kv(DType dtype, int kv_heads, int head_dim, int64_t num_positions) override;
  int64_t kv_bytes_per_position(DType dtype, int kv_heads, int head_dim) const override;
  int64_t workspace_bytes(const StepBounds& bounds) const override;
  void reserve(const StepBounds& bounds, int64_t permanent, int64_t scratch) override;
  Tensor scratch(DType dtype, int64_t rows, int64_t cols) override;
  BatchView stage(const Batch& batch) override;
  Tensor run(const BatchView& batch, const std::function<Tensor()>& queue) override;
  bool may_replay() const override { return ops_.may_replay(); }
  std::unique_ptr<DeviceTimer> make_timer(std::function<double()> clock) override;
  void copy(Tensor from, Tensor to) override;
  DType activation_type() const override { return ops_.activation_type(); }

  void embed(Tensor table, Tensor tokens, float scale, Tensor out) override;
  void rms_norm(Tensor x, Tensor weight, float offset, float eps, Tensor out) override;
  void add(Tensor x, Tensor y) override;
  void add_rms_norm(Tensor x, Tensor y, Tensor weight, float offset, float eps,
                    Tensor out) override;
  void add_bias(Tensor x, Tensor bias) override;
  void matmul(Tensor x, std::span<const Product> products) override;
  void rope_table(Tensor positions, Tensor inv_freq, Tensor out) override;
  void rope(Tensor x, Tensor table) override;
  void gate(Tensor gate, Tensor up, Activation activation, Tensor out) override;
  void write_kv(Tensor k, Tensor v, Tensor slot_mapping, KvLayer cache) override;
  void rotate_and_write_kv(Tensor q, Tensor k, Tensor v, const HeadNorms& norms, Tensor rope_table,
                           Tensor slot_mapping, KvLayer cache) override;
  void attention(Tensor q, KvLayer cache, const BatchView& batch, const AttentionArgs& args,
                 Tensor out) override;
  void gather_rows(Tensor x, Tensor indices, Tensor out) override;
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
  void mark(OpName name, OpWork work);
  OpWork work_of_attention(Tensor q, KvLayer cache, const AttentionArgs& args, Tensor out);
  void settle(Ticket ticket);

  Ops& ops_;
  DeviceTimer& timer_;
  std::function<void(const TimedStep&)> done_;

  int64_t num_replayable_ = 0;  // steps
  bool in_one_piece_ = false;   // the operations being queued are timed together
  bool worked_ = false;         // there has been a step, and nothing but work since
  Batch batch_ = {};            // the last one staged: query_starts and context_lens
  std::vector<std::pair<int, AttendedKeys>> keys_ = {};  // its keys, by window
  std::deque<Pending> pending_ = {};
  std::vector<double> seconds_ = {};
};

}  // namespace pagedinfer
