#include "ops/cuda/step_arrays.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "ops/cuda/device_arena.h"

namespace pagedinfer {
namespace {

constexpr int64_t kGranule = 4;  // numbers
constexpr int64_t kMostStates = 32768;
constexpr int64_t kItemInts = sizeof(kernels::AttentionItem) / sizeof(int32_t);
constexpr int64_t kCombineInts = sizeof(kernels::AttentionCombine) / sizeof(int32_t);

int64_t rounded(int64_t count) { return align_up(count, kGranule); }

// Calls visit(range of StepArrays, data, count of int32) for every part, in order.
template <class Visit>
void for_each_part(StepArrays& arrays, const Batch& batch, const kernels::AttentionPlan& plan,
                   const Visit& visit) {
  const auto column = [&](PackedRange& range, const std::vector<int32_t>& values) {
    visit(range, values.data(), static_cast<int64_t>(values.size()));
  };
  const auto records = [&](PackedRange& range, const auto& values, int64_t ints) {
    visit(range, values.data(), static_cast<int64_t>(values.size()) * ints);
  };
  column(arrays.tokens, batch.tokens);
  column(arrays.positions, batch.positions);
  column(arrays.slot_mapping, batch.slot_mapping);
  column(arrays.query_starts, batch.query_starts);
  column(arrays.context_lens, batch.context_lens);
  column(arrays.block_table, batch.block_table);
  column(arrays.logit_tokens, batch.logit_tokens);
  records(arrays.small_items, plan.small.items, kItemInts);
  records(arrays.small_combines, plan.small.combines, kCombineInts);
  records(arrays.large_items, plan.large.items, kItemInts);
  records(arrays.large_combines, plan.large.combines, kCombineInts);
}

}  // namespace

StepArrays lay_out(const Batch& batch, const kernels::AttentionPlan& plan) {
  StepArrays arrays;
  for_each_part(arrays, batch, plan, [&](PackedRange& range, const void*, int64_t count) {
    range = {arrays.size, count};
    arrays.size += rounded(count);
  });
  return arrays;
}

void pack(const Batch& batch, const kernels::AttentionPlan& plan, int32_t* to) {
  StepArrays arrays;
  for_each_part(arrays, batch, plan, [&](PackedRange&, const void* from, int64_t count) {
    if (count > 0) std::memcpy(to, from, static_cast<size_t>(count) * sizeof(int32_t));
    std::fill(to + count, to + rounded(count), 0);
    to += rounded(count);
  });
}

int64_t most_attention_states(const StepBounds& bounds) {
  const int64_t segments = (bounds.context + kernels::kSegmentKeys - 1) / kernels::kSegmentKeys;
  return std::min(bounds.sequences * segments * kernels::kLargeTileRows, kMostStates);
}

int64_t most_packed(const StepBounds& bounds) {
  constexpr int64_t kParts = 11;
  const int64_t group = bounds.kv_heads > 0 ? bounds.heads / bounds.kv_heads : 1;
  const int64_t blocks = (bounds.context + bounds.block_size - 1) / bounds.block_size;
  const int64_t rows = bounds.tokens * group, states = most_attention_states(bounds);
  // A sequence has a last tile that is not full; a tile is one item, or one for each state.
  const int64_t items = rows / kernels::kSmallTileRows + bounds.sequences + states;
  return 3 * bounds.tokens + bounds.sequences * (3 + blocks) + 1 + items * kItemInts +
         bounds.sequences * kCombineInts + kParts * kGranule;
}

}  // namespace pagedinfer
