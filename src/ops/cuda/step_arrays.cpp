#include "ops/cuda/step_arrays.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "ops/cuda/device_arena.h"

namespace pagedinfer {
namespace {

constexpr int64_t kGranuleNumbers = 4;  // numbers
constexpr int64_t kItemInts = sizeof(kernels::AttentionItem) / sizeof(int32_t);
constexpr kernels::AttentionItem kNoItem = {};

int64_t rounded_count(int64_t count) { return align_up(count, kGranuleNumbers); }

}  // namespace

StepArrays lay_out(const StepShape& shape) {
  StepArrays arrays;
  const auto take = [&](PackedRange& range, int64_t count) {
    range = {arrays.size, count};
    arrays.size += rounded_count(count);
  };
  take(arrays.tokens, shape.tokens);
  take(arrays.positions, shape.tokens);
  take(arrays.slot_mapping, shape.tokens);
  take(arrays.query_starts, shape.sequences + 1);
  take(arrays.context_lens, shape.sequences);
  take(arrays.block_table, shape.sequences * shape.max_blocks);
  take(arrays.logit_tokens, shape.logits);
  for (const PlanShape& plan : shape.plans) {
    StepArrays::Plan& at = arrays.plans.emplace_back();
    take(at.small_items, plan.small_items * kItemInts);
    take(at.large_items, plan.large_items * kItemInts);
  }
  return arrays;
}

void pack(const Batch& batch, std::span<const kernels::AttentionPlan> plans, const StepShape& shape,
          int32_t* to) {
  const StepArrays at = lay_out(shape);
  // Writes the numbers, then filler(index) up to the end of the range.
  const auto column = [&](const PackedRange& range, std::span<const int32_t> numbers,
                          const auto& filler) {
    int32_t* const begin = std::copy(numbers.begin(), numbers.end(), to + range.first);
    int32_t* const end = to + range.first + rounded_count(range.count);
    for (int32_t* i = begin; i != end; ++i) *i = filler(static_cast<int32_t>(i - begin));
  };
  const auto zero = [](int32_t) { return 0; };
  const auto none = [](int32_t) { return -1; };
  const int32_t num_tokens = batch.num_tokens();
  column(at.tokens, batch.tokens, zero);
  column(at.positions, batch.positions, none);
  column(at.slot_mapping, batch.slot_mapping, none);
  column(at.query_starts, batch.query_starts, [&](int32_t i) { return num_tokens + 1 + i; });
  column(at.context_lens, batch.context_lens, zero);
  column(at.logit_tokens, batch.logit_tokens, [&](int32_t i) { return num_tokens + i; });

  int32_t* row = to + at.block_table.first;
  const std::span<const int32_t> table = batch.block_table;
  const auto blocks = static_cast<size_t>(batch.max_blocks);
  for (size_t first = 0; first < table.size(); first += blocks) {
    const std::span<const int32_t> own = table.subspan(first, blocks);
    std::fill(std::copy(own.begin(), own.end(), row), row + shape.max_blocks, -1);
    row += shape.max_blocks;
  }
  std::fill(row, to + at.block_table.first + rounded_count(at.block_table.count), -1);

  const auto items = [&](const PackedRange& range, std::span<const kernels::AttentionItem> list) {
    int32_t* place = to + range.first;
    int32_t* const end = place + range.count;
    const auto append = [&](const kernels::AttentionItem* from, size_t count) {
      if (count > 0) std::memcpy(place, from, count * sizeof(*from));
      place += count * kItemInts;
    };
    append(list.data(), list.size());
    while (place != end) append(&kNoItem, 1);
    std::fill(end, to + range.first + rounded_count(range.count), 0);
  };
  for (size_t i = 0; i < plans.size(); ++i) {
    items(at.plans[i].small_items, plans[i].small.items);
    items(at.plans[i].large_items, plans[i].large.items);
  }
}

int64_t max_packed(const AttentionShape& attention, const StepBounds& bounds) {
  const int64_t num_plans = std::ssize(attention.windows), parts = 7 + 2 * num_plans;
  const int64_t rows = bounds.tokens * attention.group();
  const int64_t states = max_attention_states(attention, bounds);
  // Each sequence may have one tile that is not full. A tile is one item, or several, with states.
  const int64_t items = rows / kernels::kSmallTileRows + bounds.sequences + states;
  return 3 * bounds.tokens + bounds.sequences * (3 + max_blocks(bounds)) + 1 +
         num_plans * items * kItemInts + parts * kGranuleNumbers;
}

}  // namespace pagedinfer
