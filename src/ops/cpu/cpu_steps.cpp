#include "ops/cpu/cpu_steps.h"

#include <algorithm>

#include "core/check.h"
#include "core/denormals.h"
#include "ops/cpu/kv_positions.h"

namespace pagedinfer {

CpuSteps::CpuSteps(CpuState& state)
    : state_(state), samplers_(state.options.num_threads, Sampler(state.kernels)) {}

int64_t CpuSteps::staged_bytes(const StepBounds& bounds) {
  constexpr int64_t kGaps = 64 << 10;
  const int64_t blocks = (bounds.context + bounds.block_size - 1) / bounds.block_size;
  const int64_t numbers = 3 * bounds.tokens + bounds.sequences * (3 + blocks);
  return numbers * int64_t{sizeof(int32_t)} + kGaps;
}

Tensor CpuSteps::scratch(DType dtype, int64_t rows, int64_t cols) {
  return {scratch_.take(rows * cols * size_of(dtype)), dtype, rows, cols, cols};
}

BatchView CpuSteps::stage(const Batch& batch) {
  scratch_.reset();
  const auto column = [&](const std::vector<int32_t>& values) {
    const Tensor copy = scratch(DType::kI32, static_cast<int64_t>(values.size()), 1);
    std::copy(values.begin(), values.end(), copy.row<int32_t>(0));
    return copy;
  };
  const Tensor tokens = column(batch.tokens);
  for (int32_t& token : std::span(tokens.row<int32_t>(0), batch.tokens.size())) {
    token = drawn_.resolve(token);
  }
  return {.copies = batch.copies,
          .tokens = tokens,
          .positions = column(batch.positions),
          .slot_mapping = column(batch.slot_mapping),
          .query_starts = column(batch.query_starts),
          .context_lens = column(batch.context_lens),
          .block_table = column(batch.block_table),
          .logit_tokens = column(batch.logit_tokens),
          .max_blocks = batch.max_blocks,
          .block_size = batch.block_size};
}

void CpuSteps::copy_kv(const BatchView& batch, std::span<const KvLayer> cache) {
  for (const KvLayer& layer : cache) {
    state_.pool.parallel_for(static_cast<int>(batch.copies.size()), [&](int i, int) {
      const KvCopy& copy = batch.copies[i];
      for (int head = 0; head < layer.kv_heads; ++head) {
        copy_positions(layer, head, copy.source, copy.destination, copy.count);
      }
    });
  }
}

void CpuSteps::run_on_host(int count, const std::function<void(int)>& task) {
  state_.pool.parallel_for(count, [&](int i, int) { task(i); });
}

StepProtocol::Ticket CpuSteps::sample(Tensor logits, std::span<const SampleRow> unresolved) {
  for (const SampleRow& row : unresolved) {
    CHECK(row.logits_row < logits.rows && row.num_log_probs <= kMaxCandidates);
    CHECK(row.mask.empty() || std::ssize(row.mask) * 32 >= logits.cols);
  }
  const std::span<const SampleRow> rows = drawn_.resolve(unresolved);
  const std::span<DrawnToken> out = drawn_.next(rows.size());
  const auto logits_of = [&](const SampleRow& row) {
    return std::span<const float>(logits.row<float>(row.logits_row), logits.cols);
  };
  const auto for_each_row = [&](const auto& f) {
    constexpr int64_t kWorthAThread = 32768;
    if (std::ssize(rows) * logits.cols >= 2 * kWorthAThread) {
      state_.pool.parallel_for(static_cast<int>(rows.size()), f);
    } else {
      const FlushDenormals guard;
      for (int i = 0; i < std::ssize(rows); ++i) f(i, 0);
    }
  };
  for_each_row([&](int i, int worker) {
    out[i].token = samplers_[worker].draw(logits_of(rows[i]), rows[i]);
  });
  const auto asks = [](const SampleRow& row) { return row.num_log_probs >= 0; };
  if (std::ranges::none_of(rows, asks)) return drawn_.add();
  for_each_row([&](int i, int worker) {
    const int row = rows[i].logits_row;
    if (!asks(rows[i]) || (i > 0 && rows[i - 1].logits_row == row)) return;
    int end = i + 1;
    while (end < std::ssize(rows) && rows[end].logits_row == row) ++end;
    samplers_[worker].report(logits_of(rows[i]), rows.subspan(i, end - i), out.subspan(i, end - i));
  });
  return drawn_.add();
}

}  // namespace pagedinfer
