// The arrays that the CUDA backend copies to the device for a step.
#include <cstring>
#include <vector>

#include "kernels/attention_plan.h"
#include "ops/cuda/step_arrays.h"
#include "tests/support/cuda_batches.h"
#include "tests/support/ops_support.h"

namespace pagedinfer {
namespace {

constexpr int32_t kUntouched = -77;

StepBounds random_bounds(Random& random) {
  return {.tokens = random.between(1, 700),
          .sequences = random.between(1, 40),
          .context = random.between(1, 3000),
          .block_size = random.between(1, 64)};
}

AttentionShape random_attention(Random& random) {
  const int kv_heads = random.between(1, 3), group = random.between(1, random.below(4) ? 5 : 150);
  return {.heads = kv_heads * group,
          .kv_heads = kv_heads,
          .head_dim = 64,
          .windows = random.below(2) ? std::vector{0} : std::vector{0, random.between(1, 900)}};
}

// The arrays of a step as the device gets them.
struct Packed {
  StepArrays at;
  std::vector<int32_t> numbers;

  Packed(const Batch& batch, std::span<const kernels::AttentionPlan> plans, const StepShape& shape)
      : at(lay_out(shape)), numbers(static_cast<size_t>(at.size) + 4, kUntouched) {
    pack(batch, plans, shape, numbers.data());
    for (size_t i = 0; i < 4; ++i) CHECK(numbers[static_cast<size_t>(at.size) + i] == kUntouched);
  }
  std::vector<int32_t> part(const PackedRange& range) const {
    CHECK(range.first % 4 == 0);
    return {numbers.begin() + range.first, numbers.begin() + range.first + range.count};
  }
};

// The numbers, then `count` times the filler.
std::vector<int32_t> followed_by(std::vector<int32_t> numbers, int64_t count, int32_t filler) {
  numbers.insert(numbers.end(), static_cast<size_t>(count), filler);
  return numbers;
}

template <class Record>
std::vector<int32_t> as_numbers(std::vector<Record> records, int64_t num_fillers, Record filler) {
  records.insert(records.end(), static_cast<size_t>(num_fillers), filler);
  std::vector<int32_t> numbers(records.size() * sizeof(Record) / 4);
  if (!numbers.empty()) std::memcpy(numbers.data(), records.data(), numbers.size() * 4);
  return numbers;
}

}  // namespace

TEST_CASE("a step's arrays arrive as they are, and within what was planned for them") {
  Random random{73};
  for (int run = 0; run < 600; ++run) {
    const StepBounds bounds = random_bounds(random);
    const AttentionShape attention = random_attention(random);
    const bool decodes = random.below(2);
    const Batch batch = decodes ? random_decodes(random, bounds) : random_batch(random, bounds);
    std::vector<kernels::AttentionPlan> plans;
    plan_step(batch, attention, attention_limits(attention, bounds, random.below(2) ? 132 : 2),
              plans);
    const StepShape own = shape_of(batch, plans);
    CHECK(only_decodes(own) >= decodes);
    const StepShape shape = decodes ? padded(own, attention, bounds) : own;
    const Packed packed(batch, plans, shape);
    const StepArrays& at = packed.at;
    CHECK(at.size <= max_packed(attention, bounds));

    const int64_t more = shape.tokens - own.tokens;
    CHECK(packed.part(at.tokens) == followed_by(batch.tokens, more, 0));
    CHECK(packed.part(at.positions) == followed_by(batch.positions, more, -1));
    CHECK(packed.part(at.slot_mapping) == followed_by(batch.slot_mapping, more, -1));
    CHECK(packed.part(at.context_lens) == followed_by(batch.context_lens, more, 0));
    std::vector<int32_t> starts = batch.query_starts, logits = batch.logit_tokens, table;
    for (int64_t i = own.tokens; i < shape.tokens; ++i) {  // each has a token of its own
      starts.push_back(static_cast<int32_t>(i) + 1);
      logits.push_back(static_cast<int32_t>(i));
    }
    CHECK(packed.part(at.query_starts) == starts);
    CHECK(packed.part(at.logit_tokens) == logits);
    for (int64_t s = 0; s < shape.sequences; ++s) {
      for (int64_t b = 0; b < shape.max_blocks; ++b) {
        const bool is_own = s < own.sequences && b < own.max_blocks;
        table.push_back(is_own ? batch.block_table[static_cast<size_t>(s * own.max_blocks + b)]
                               : -1);
      }
    }
    CHECK(packed.part(at.block_table) == table);

    const kernels::AttentionItem no_item = {};
    for (size_t i = 0; i < attention.windows.size(); ++i) {
      const PlanShape &before = own.plans[i], &after = shape.plans[i];
      CHECK(packed.part(at.plans[i].small_items) ==
            as_numbers(plans[i].small.items, after.small_items - before.small_items, no_item));
      CHECK(packed.part(at.plans[i].large_items) ==
            as_numbers(plans[i].large.items, after.large_items - before.large_items, no_item));
    }
  }
}

}  // namespace pagedinfer
