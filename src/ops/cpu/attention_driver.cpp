#include "ops/cpu/attention_driver.h"

#include <algorithm>

#include "core/check.h"

namespace pagedinfer {

namespace {

int32_t item(const Tensor& column, int64_t i) { return static_cast<int32_t*>(column.data)[i]; }

void attend_segment(const Kernels& kernels, const AttentionRows& rows, const KvLayer& cache,
                    int head, int segment, bool is_first, AttentionState state) {
  const int64_t first = head * padded_positions(cache.num_positions);
  if (cache.k.dtype == DType::kF32) {
    kernels.attend_float(rows, cache.k.row<float>(first), cache.v.row<float>(first), segment,
                         is_first, state);
  } else {
    kernels.attend_bf16(rows, cache.k.row<bf16>(first), cache.v.row<bf16>(first), segment, is_first,
                        state);
  }
}

}  // namespace

void attend(const Kernels& kernels, ThreadPool& pool, Tensor q, const KvLayer& cache,
            const BatchView& batch, const AttentionArgs& args, AttentionWorkspace& workspace,
            Tensor out) {
  const int dim = args.head_dim, padded = static_cast<int>(padded_head_dim(dim));
  const int group = args.heads / args.kv_heads;
  CHECK(args.heads == group * args.kv_heads && dim <= kMaxHeadDim);

  std::vector<AttentionWorkspace::Task>& tasks = workspace.tasks_;
  tasks.clear();
  for (int seq = 0; seq < batch.context_lens.rows; ++seq) {
    const int rows = (item(batch.query_starts, seq + 1) - item(batch.query_starts, seq)) * group;
    for (int row = 0; row < rows; row += kMaxAttentionRows) {
      tasks.push_back({seq, row, std::min(rows - row, kMaxAttentionRows)});
    }
  }

  pool.parallel_for(static_cast<int>(tasks.size()) * args.kv_heads, [&](int index, int worker) {
    const auto [seq, first_row, num_rows] = tasks[index / args.kv_heads];
    const int kv_head = index % args.kv_heads;
    const int first_token = item(batch.query_starts, seq);
    AttentionWorkspace::Worker& mine = workspace.workers_[worker];

    const auto token_of = [&](int r) { return first_token + (first_row + r) / group; };
    const auto column_of = [&](int r) {
      return (int64_t{kv_head} * group + (first_row + r) % group) * dim;
    };
    for (int r = 0; r < num_rows; ++r) {
      float* to = mine.q + r * padded;
      kernels.scale(q.row<float>(token_of(r)) + column_of(r), args.scale, to, dim);
      std::fill(to + dim, to + padded, 0.0f);
      mine.positions[r] = item(batch.positions, token_of(r));
    }
    const AttentionRows rows = {
        mine.q,
        mine.positions,
        num_rows,
        padded,
        args.window,
        static_cast<int32_t*>(batch.block_table.data) + int64_t{seq} * batch.max_blocks,
        batch.block_size};

    const AttentionState total = mine.state(0), part = mine.state(1);
    const int oldest = args.window > 0 ? std::max(0, mine.positions[0] + 1 - args.window) : 0;
    const int first = oldest / kSegmentKeys, last = mine.positions[num_rows - 1] / kSegmentKeys;
    attend_segment(kernels, rows, cache, kv_head, first, true, total);
    for (int segment = first + 1; segment <= last; ++segment) {
      attend_segment(kernels, rows, cache, kv_head, segment, false, part);
      kernels.combine(total, part, num_rows, padded);
    }
    kernels.divide(total, num_rows, padded);
    for (int r = 0; r < num_rows; ++r) {
      std::copy_n(total.out + r * padded, dim, out.row<float>(token_of(r)) + column_of(r));
    }
  });
}

}  // namespace pagedinfer
