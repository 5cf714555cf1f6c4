#include "ops/cpu/cpu_attention.h"

#include <algorithm>

#include "core/check.h"
#include "core/denormals.h"

namespace pagedinfer {

namespace {

constexpr int kTasksPerThread = 4;

}  // namespace

struct CpuAttention::Call {
  const AttentionKernels kernels;
  const Tensor& q;
  const KvLayer& cache;
  const BatchView& batch;
  const AttentionArgs& args;
  const Tensor& out;
  int group, padded;

  int num_rows(int seq) const {
    return (int_at(batch.query_starts, seq + 1) - int_at(batch.query_starts, seq)) * group;
  }
  int64_t token(const Item& item, int row) const {
    return int_at(batch.query_starts, item.seq) + (item.first_row + row) / group;
  }
  int64_t column(const Item& item, int kv_head, int row) const {
    return (int64_t{kv_head} * group + (item.first_row + row) % group) * args.head_dim;
  }
  int position(const Item& item, int row) const {
    return int_at(batch.positions, token(item, row));
  }
  // The first key that the rows of the item see.
  int oldest(const Item& item) const {
    return args.window > 0 ? std::max(0, position(item, 0) + 1 - args.window) : 0;
  }
  const int32_t* block_table(const Item& item) const {
    return static_cast<int32_t*>(batch.block_table.data) + int64_t{item.seq} * batch.max_blocks;
  }
};

CpuAttention::CpuAttention(CpuIsa isa, ThreadPool& pool)
    : isa_(isa),
      pool_(pool),
      workers_(std::make_unique_for_overwrite<Worker[]>(static_cast<size_t>(pool.num_threads()))) {}

// Several tasks share an item and head only if its work exceeds the work of one wanted task. So
// there are fewer shared ones than wanted tasks.
int64_t CpuAttention::max_bytes(const StepBounds& bounds, int head_dim) const {
  const int64_t threads = pool_.num_threads();
  const int64_t workers = threads * int64_t{sizeof(Worker)};
  if (threads == 1) return workers;
  const int64_t segments = (bounds.context + kSegmentKeys - 1) / kSegmentKeys;
  const int64_t row = (2 + padded_head_dim(head_dim)) * int64_t{sizeof(float)};
  return workers + kTasksPerThread * threads * segments * kSharedRows * row;
}

void CpuAttention::run(Tensor q, const KvLayer& cache, const BatchView& batch,
                       const AttentionArgs& args, Tensor out) {
  const int group = args.heads / args.kv_heads;
  CHECK(args.heads == group * args.kv_heads && args.head_dim <= kMaxHeadDim);
  const Call call = {attention_of(isa_, cache.k.dtype),
                     q,
                     cache,
                     batch,
                     args,
                     out,
                     group,
                     static_cast<int>(padded_head_dim(args.head_dim))};
  plan(call);

  int64_t work = 0;  // multiplications
  for (const Item& item : items_) {
    work += int64_t{item.num_rows} * (item.end_segment - item.first_segment);
  }
  work *= int64_t{2} * kSegmentKeys * call.padded * args.kv_heads;
  constexpr int64_t kWorthThreads = 1 << 20;
  const int num_tasks = static_cast<int>(tasks_.size());
  const int all = num_tasks * args.kv_heads;
  const auto each = [&](int index, int worker, int num_threads) {
    const int next = index + num_threads;  // most likely
    const KeysAfter after =
        next < all ? first_keys(call, tasks_[next % num_tasks], next / num_tasks) : KeysAfter();
    compute(call, tasks_[index % num_tasks], index / num_tasks, after, workers_[worker]);
  };
  if (work < kWorthThreads) {
    const FlushDenormals guard;
    for (int i = 0; i < all; ++i) each(i, 0, 1);
  } else {
    pool_.parallel_for(all, [&](int i, int worker) { each(i, worker, pool_.num_threads()); });
  }
  pool_.parallel_for(static_cast<int>(shared_items_.size()) * args.kv_heads, [&](int i, int) {
    combine(call, items_[shared_items_[i / args.kv_heads]], i % args.kv_heads);
  });
}

void CpuAttention::plan(const Call& call) {
  const int num_seqs = static_cast<int>(call.batch.context_lens.rows);
  const int kv_heads = call.args.kv_heads, threads = pool_.num_threads();
  const int wanted_tasks = threads > 1 ? kTasksPerThread * threads : 1;
  const auto count_items = [&](int rows) {
    int64_t count = 0;
    for (int seq = 0; seq < num_seqs; ++seq) count += (call.num_rows(seq) + rows - 1) / rows;
    return count;
  };
  int item_rows = kMaxAttentionRows;
  while (item_rows > kSharedRows && count_items(item_rows) * kv_heads < wanted_tasks) {
    item_rows /= 2;
  }

  items_.clear();
  int64_t segments = 0;
  for (int seq = 0; seq < num_seqs; ++seq) {
    const int rows = call.num_rows(seq);
    for (int row = 0; row < rows; row += item_rows) {
      Item item = {seq, row, std::min(rows - row, item_rows), 0, 0};
      item.first_segment = call.oldest(item) / kSegmentKeys;
      item.end_segment = call.position(item, item.num_rows - 1) / kSegmentKeys + 1;
      segments += item.end_segment - item.first_segment;
      items_.push_back(item);
    }
  }

  tasks_.clear();
  shared_items_.clear();
  const int64_t max_items =
      std::max<int64_t>(1, segments * kv_heads / wanted_tasks);  // segments of a task
  int64_t states = 0;
  for (int i = 0; i < std::ssize(items_); ++i) {
    Item& item = items_[i];
    const int64_t count = item.end_segment - item.first_segment;
    if (threads == 1 || item.num_rows > kSharedRows || count <= max_items) {
      tasks_.push_back({i, item.first_segment, item.end_segment});
      continue;
    }
    item.states = states;
    states += count * kv_heads * item.num_rows * (2 + call.padded);
    shared_items_.push_back(i);
    const int64_t parts = (count + max_items - 1) / max_items;
    for (int64_t part = 0; part < parts; ++part) {
      tasks_.push_back({i, static_cast<int>(item.first_segment + count * part / parts),
                        static_cast<int>(item.first_segment + count * (part + 1) / parts)});
    }
  }
  if (std::ssize(states_) >= states) return;
  states_ = {};  // released first
  states_.resize(states);
}

AttentionState CpuAttention::shared_state(const Call& call, const Item& item, int kv_head,
                                          int segment) {
  const int64_t segments = item.end_segment - item.first_segment;
  const int64_t index = kv_head * segments + segment - item.first_segment;
  float* const at = &states_[item.states + index * item.num_rows * (2 + call.padded)];
  return {at, at + item.num_rows, at + 2 * item.num_rows};
}

KeysAfter CpuAttention::first_keys(const Call& call, const Task& task, int kv_head) const {
  const Item& item = items_[task.item];
  const int begin = std::max(call.oldest(item), task.first_segment * kSegmentKeys);
  const int end = call.position(item, item.num_rows - 1) + 1;
  return {call.block_table(item), kv_head, begin, std::min(end, begin + kMaxKeysAfter)};
}

void CpuAttention::compute(const Call& call, const Task& task, int kv_head, const KeysAfter& after,
                           Worker& worker) {
  const Item& item = items_[task.item];
  const int dim = call.args.head_dim, padded = call.padded;
  for (int r = 0; r < item.num_rows; ++r) {
    float* const to = worker.q + r * padded;
    call.kernels.prepare(call.q.row<float>(call.token(item, r)) + call.column(item, kv_head, r),
                         call.args.scale, call.args.softcap, to, dim);
    std::fill(to + dim, to + padded, 0.0f);
    worker.positions[r] = call.position(item, r);
  }
  const AttentionRows rows = {worker.q,
                              worker.positions,
                              item.num_rows,
                              padded,
                              call.args.window,
                              call.block_table(item),
                              call.batch.block_size,
                              kv_head,
                              call.args.kv_heads,
                              call.cache.k_scale.row<float>(0),
                              call.cache.v_scale.row<float>(0),
                              call.args.softcap,
                              worker.scratch,
                              after};
  const auto attend = [&](const Segments& segments, AttentionState state) {
    call.kernels.attend(rows, call.cache.k.data, call.cache.v.data, segments, state);
  };
  if (item.states >= 0) {
    for (int segment = task.first_segment; segment < task.end_segment; ++segment) {
      attend({segment, segment + 1, segment > task.first_segment},
             shared_state(call, item, kv_head, segment));
    }
    return;
  }
  const AttentionState total = {worker.largest, worker.sum, worker.out};
  attend({task.first_segment, task.end_segment, false}, total);
  finish(call, item, kv_head, total);
}

void CpuAttention::combine(const Call& call, const Item& item, int kv_head) {
  const AttentionState total = shared_state(call, item, kv_head, item.first_segment);
  for (int segment = item.first_segment + 1; segment < item.end_segment; ++segment) {
    call.kernels.combine(total, shared_state(call, item, kv_head, segment), item.num_rows,
                         call.padded);
  }
  finish(call, item, kv_head, total);
}

void CpuAttention::finish(const Call& call, const Item& item, int kv_head, AttentionState total) {
  const Tensor& sinks = call.args.sinks;
  if (!sinks.empty()) {
    float of_rows[kMaxAttentionRows];
    for (int r = 0; r < item.num_rows; ++r) {
      of_rows[r] = sinks.row<float>(0)[call.column(item, kv_head, r) / call.args.head_dim];
    }
    call.kernels.add_sinks(total, of_rows, item.num_rows, call.padded);
  }
  call.kernels.divide(total, item.num_rows, call.padded);
  for (int r = 0; r < item.num_rows; ++r) {
    std::copy_n(total.out + r * call.padded, call.args.head_dim,
                call.out.row<float>(call.token(item, r)) + call.column(item, kv_head, r));
  }
}

}  // namespace pagedinfer
