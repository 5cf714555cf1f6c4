#include "ops/timed_ops.h"

#include <algorithm>

namespace pagedinfer {

Tensor TimedOps::allocate(DType dtype, int64_t rows, int64_t cols) {
  return ops_.allocate(dtype, rows, cols);
}

Tensor TimedOps::upload(Tensor host, DType dtype) { return ops_.upload(host, dtype); }

DType TimedOps::matrix_type(DType of_file, DType compute) const {
  return ops_.matrix_type(of_file, compute);
}

int64_t TimedOps::uploaded_bytes(Tensor host, DType dtype) const {
  return ops_.uploaded_bytes(host, dtype);
}

KvLayer TimedOps::allocate_kv(DType dtype, int kv_heads, int head_dim, int64_t num_positions) {
  return ops_.allocate_kv(dtype, kv_heads, head_dim, num_positions);
}

int64_t TimedOps::kv_bytes_per_position(DType dtype, int kv_heads, int head_dim) const {
  return ops_.kv_bytes_per_position(dtype, kv_heads, head_dim);
}

int64_t TimedOps::workspace_bytes(const StepBounds& bounds) const {
  return ops_.workspace_bytes(bounds);
}

void TimedOps::reserve(const StepBounds& bounds, int64_t permanent, int64_t scratch) {
  ops_.reserve(bounds, permanent, scratch);
}

Tensor TimedOps::scratch(DType dtype, int64_t rows, int64_t cols) {
  return ops_.scratch(dtype, rows, cols);
}

// The first step of a shape is not replayed in any case, so the second is the first to be timed.
Tensor TimedOps::run(const BatchView& batch, const std::function<Tensor()>& queue) {
  if (!ops_.may_replay() || num_replayable_++ % kTimedEvery == 1) return queue();
  struct Piece {
    bool& is_open;
    ~Piece() { is_open = false; }
  };
  Tensor out;
  {
    in_one_piece_ = true;
    const Piece piece{in_one_piece_};
    out = ops_.run(batch, queue);
  }
  mark({OpKind::kReplay}, {});
  return out;
}

std::unique_ptr<DeviceTimer> TimedOps::make_timer(std::function<double()> clock) {
  return ops_.make_timer(std::move(clock));
}

void TimedOps::copy(Tensor from, Tensor to) { ops_.copy(from, to); }

// What ends here is time without an operation.
void TimedOps::mark_gap() {
  timer_.mark();
  pending_.back().marks.push_back(false);
}

// The operation that ends here began where the one before it ended.
void TimedOps::mark(OpName name, OpWork work) {
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
  const BatchView view = ops_.stage(batch);
  mark_gap();
  return view;
}

void TimedOps::embed(Tensor table, Tensor tokens, float scale, Tensor out) {
  ops_.embed(table, tokens, scale, out);
  mark({OpKind::kEmbed}, embed_work(table, tokens, out));
}

void TimedOps::rms_norm(Tensor x, Tensor weight, float offset, float eps, Tensor out) {
  ops_.rms_norm(x, weight, offset, eps, out);
  mark({OpKind::kRmsNorm}, work_of({x, weight, out}));
}

void TimedOps::add(Tensor x, Tensor y) {
  ops_.add(x, y);
  mark({OpKind::kAdd}, work_of({x, y, x}));
}

void TimedOps::add_rms_norm(Tensor x, Tensor y, Tensor weight, float offset, float eps,
                            Tensor out) {
  ops_.add_rms_norm(x, y, weight, offset, eps, out);
  mark({OpKind::kAddRmsNorm}, work_of({x, y, weight, x, out}));
}

void TimedOps::add_bias(Tensor x, Tensor bias) {
  ops_.add_bias(x, bias);
  mark({OpKind::kAddBias}, work_of({x, bias, x}));
}

void TimedOps::matmul(Tensor x, std::span<const Product> products) {
  ops_.matmul(x, products);
  OpName name = {.kind = OpKind::kMatmul, .in = x.cols};
  for (const Product& product : products) name.out += product.weight.rows;
  mark(name, matmul_work(x, products));
}

void TimedOps::rope_table(Tensor positions, Tensor inv_freq, Tensor out) {
  ops_.rope_table(positions, inv_freq, out);
  mark({OpKind::kRopeTable}, work_of({positions, inv_freq, out}));
}

void TimedOps::rope(Tensor x, Tensor table) {
  ops_.rope(x, table);
  mark({OpKind::kRope}, work_of({x, table, x}));
}

void TimedOps::gate(Tensor gate, Tensor up, Activation activation, Tensor out) {
  ops_.gate(gate, up, activation, out);
  mark({OpKind::kGate}, work_of({gate, up, out}));
}

void TimedOps::write_kv(Tensor k, Tensor v, Tensor slot_mapping, KvLayer cache) {
  ops_.write_kv(k, v, slot_mapping, cache);
  mark({OpKind::kWriteKv}, write_kv_work(k, v, slot_mapping, cache));
}

void TimedOps::rotate_and_write_kv(Tensor q, Tensor k, Tensor v, const HeadNorms& norms,
                                   Tensor rope_table, Tensor slot_mapping, KvLayer cache) {
  ops_.rotate_and_write_kv(q, k, v, norms, rope_table, slot_mapping, cache);
  mark({OpKind::kRotateAndWriteKv},
       rotate_and_write_kv_work(q, k, v, norms, rope_table, slot_mapping, cache));
}

// Layers of one window attend to the same keys.
OpWork TimedOps::work_of_attention(Tensor q, KvLayer cache, const AttentionArgs& args, Tensor out) {
  auto found = std::ranges::find(keys_, args.window, &std::pair<int, AttendedKeys>::first);
  if (found == keys_.end()) {
    keys_.emplace_back(args.window, attended_keys(batch_, args.window));
    found = keys_.end() - 1;
  }
  return attention_work(q, cache, found->second, args, out);
}

void TimedOps::attention(Tensor q, KvLayer cache, const BatchView& batch, const AttentionArgs& args,
                         Tensor out) {
  ops_.attention(q, cache, batch, args, out);
  mark({.kind = OpKind::kAttention, .window = args.window}, work_of_attention(q, cache, args, out));
}

void TimedOps::gather_rows(Tensor x, Tensor indices, Tensor out) {
  ops_.gather_rows(x, indices, out);
  mark({OpKind::kGatherRows}, work_of({indices, out, out}));
}

Ops::Ticket TimedOps::sample(Tensor logits, std::span<const SampleRow> rows) {
  mark_gap();
  const Ticket ticket = ops_.sample(logits, rows);
  mark({OpKind::kSample}, work_of({logits}));
  pending_.back().ticket = ticket;
  return ticket;
}

void TimedOps::collect(Ticket ticket, std::span<TokenId> out) {
  ops_.collect(ticket, out);
  settle(ticket);
}

// The device is past what was queued up to this sample().
void TimedOps::settle(Ticket ticket) {
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
