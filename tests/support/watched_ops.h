#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <type_traits>

#include "ops/ops.h"

namespace pagedinfer {

// Forwards to another Ops, and lets a test look at a step's calls and spoil them.
class WatchedOps final : public Ops {
 public:
  explicit WatchedOps(Ops& ops) : ops_(ops) {}

  // Around every call that belongs to a step: before it and, `done`, after it. May throw.
  std::function<void(bool done)> around = [](bool) {};
  std::function<void(const Batch&)> on_stage = [](const Batch&) {};  // before it
  std::function<void(Tensor logits, std::span<const SampleRow>)> on_sample =
      [](Tensor, std::span<const SampleRow>) {};  // before it

  // Tickets that nobody has asked about, and the most that there were at a time.
  std::set<Ticket> unasked = {};
  size_t most_unasked = 0;
  bool collects = false;  // the latest call is collect(), or was when it threw

  std::string description() const override { return ops_.description(); }
  Tensor allocate(DType dtype, int64_t rows, int64_t cols) override {
    return ops_.allocate(dtype, rows, cols);
  }
  Tensor upload(Tensor host, DType dtype) override { return ops_.upload(host, dtype); }
  KvLayer allocate_kv(DType dtype, int kv_heads, int head_dim, int64_t num_positions) override {
    return ops_.allocate_kv(dtype, kv_heads, head_dim, num_positions);
  }
  int64_t kv_bytes_per_position(DType dtype, int kv_heads, int head_dim) const override {
    return ops_.kv_bytes_per_position(dtype, kv_heads, head_dim);
  }
  DType matrix_type(DType of_file, DType compute) const override {
    return ops_.matrix_type(of_file, compute);
  }
  int64_t uploaded_bytes(Tensor host, DType dtype) const override {
    return ops_.uploaded_bytes(host, dtype);
  }
  std::unique_ptr<DeviceTimer> make_timer(std::function<double()> clock) override {
    return ops_.make_timer(std::move(clock));
  }
  bool may_replay() const override { return ops_.may_replay(); }
  void copy(Tensor from, Tensor to) override { ops_.copy(from, to); }
  DType activation_type() const override { return ops_.activation_type(); }

  Tensor scratch(DType dtype, int64_t rows, int64_t cols) override {
    return call([&] { return ops_.scratch(dtype, rows, cols); });
  }
  BatchView stage(const Batch& batch) override {
    collects = false;
    on_stage(batch);
    return call([&] { return ops_.stage(batch); });
  }
  Tensor run(const BatchView& batch, const std::function<Tensor()>& queue) override {
    return ops_.run(batch, queue);
  }
  void embed(Tensor table, Tensor tokens, float scale, Tensor out) override {
    call([&] { ops_.embed(table, tokens, scale, out); });
  }
  void rms_norm(Tensor x, Tensor weight, float offset, float eps, Tensor out) override {
    call([&] { ops_.rms_norm(x, weight, offset, eps, out); });
  }
  void add(Tensor x, Tensor y) override {
    call([&] { ops_.add(x, y); });
  }
  void add_rms_norm(Tensor x, Tensor y, Tensor weight, float offset, float eps,
                    Tensor out) override {
    call([&] { ops_.add_rms_norm(x, y, weight, offset, eps, out); });
  }
  void add_bias(Tensor x, Tensor bias) override {
    call([&] { ops_.add_bias(x, bias); });
  }
  void matmul(Tensor x, std::span<const Product> products) override {
    call([&] { ops_.matmul(x, products); });
  }
  void rope_table(Tensor positions, Tensor inv_freq, Tensor out) override {
    call([&] { ops_.rope_table(positions, inv_freq, out); });
  }
  void rope(Tensor x, Tensor table) override {
    call([&] { ops_.rope(x, table); });
  }
  void gate(Tensor gate, Tensor up, Activation activation, Tensor out) override {
    call([&] { ops_.gate(gate, up, activation, out); });
  }
  void write_kv(Tensor k, Tensor v, Tensor slot_mapping, KvLayer cache) override {
    call([&] { ops_.write_kv(k, v, slot_mapping, cache); });
  }
  void rotate_and_write_kv(Tensor q, Tensor k, Tensor v, const HeadNorms& norms, Tensor rope_table,
                           Tensor slot_mapping, KvLayer cache) override {
    call([&] { ops_.rotate_and_write_kv(q, k, v, norms, rope_table, slot_mapping, cache); });
  }
  void attention(Tensor q, KvLayer cache, const BatchView& batch, const AttentionArgs& args,
                 Tensor out) override {
    call([&] { ops_.attention(q, cache, batch, args, out); });
  }
  void gather_rows(Tensor x, Tensor indices, Tensor out) override {
    call([&] { ops_.gather_rows(x, indices, out); });
  }
  Ticket sample(Tensor logits, std::span<const SampleRow> rows) override {
    on_sample(logits, rows);
    const Ticket ticket = call([&] { return ops_.sample(logits, rows); });
    unasked.insert(ticket);
    most_unasked = std::max(most_unasked, unasked.size());
    return ticket;
  }
  void collect(Ticket ticket, std::span<TokenId> out) override {
    unasked.erase(ticket);
    collects = true;
    call([&] { ops_.collect(ticket, out); });
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

  Ops& ops_;
};

}  // namespace pagedinfer
