// What a step of the CUDA backend copies to the device.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/attention_plan.h"
#include "ops/cuda/step_arrays.h"
#include "ops_support.h"

namespace pagedinfer {
namespace {

Batch random_batch(Random& random, const StepBounds& bounds) {
  Batch batch = {.query_starts = {0}, .block_size = bounds.block_size};
  int64_t left = bounds.tokens;
  std::vector<std::pair<int, int>> chunks;  // first position, count
  const int sequences = random.between(1, static_cast<int>(bounds.sequences));
  for (int s = 0; s < sequences && left > 0; ++s) {
    const int count =
        random.below(2) ? 1 : random.between(1, static_cast<int>(std::min(left, bounds.context)));
    const int first = random.between(0, static_cast<int>(bounds.context) - count);
    chunks.emplace_back(first, count);
    left -= count;
    batch.max_blocks = std::max(batch.max_blocks, (first + count - 1) / bounds.block_size + 1);
  }
  for (const auto& [first, count] : chunks) {
    for (int p = first; p < first + count; ++p) {
      batch.tokens.push_back(random.below(1000));
      batch.positions.push_back(p);
      batch.slot_mapping.push_back(random.below(100000));
    }
    batch.query_starts.push_back(batch.num_tokens());
    batch.context_lens.push_back(first + count);
    batch.logit_tokens.push_back(batch.num_tokens() - 1);
    for (int b = 0; b < batch.max_blocks; ++b) batch.block_table.push_back(random.below(1000));
  }
  return batch;
}

}  // namespace

TEST_CASE("a step's arrays arrive as they are, and within what was planned for them") {
  Random random{73};
  for (int run = 0; run < 300; ++run) {
    const int kv_heads = random.between(1, 3), group = random.between(1, 5);
    const StepBounds bounds = {.tokens = random.between(1, 700),
                               .sequences = random.between(1, 40),
                               .context = random.between(1, 3000),
                               .block_size = random.between(1, 64),
                               .heads = kv_heads * group,
                               .kv_heads = kv_heads,
                               .head_dim = 64};
    const Batch batch = random_batch(random, bounds);
    kernels::AttentionPlan plan;
    kernels::plan_attention(batch.query_starts, batch.positions, group,
                            most_attention_states(bounds), plan);
    const StepArrays at = lay_out(batch, plan);
    CHECK(at.size <= most_packed(bounds));
    std::vector<int32_t> packed(static_cast<size_t>(at.size) + 4, -77);
    pack(batch, plan, packed.data());
    CHECK(packed[static_cast<size_t>(at.size)] == -77);
    const auto same_ints = [&](const PackedRange& range, const void* data, size_t ints) {
      CHECK(range.first % 4 == 0);
      REQUIRE(range.count == static_cast<int64_t>(ints));
      CHECK((ints == 0 ||
             std::memcmp(&packed[static_cast<size_t>(range.first)], data, ints * 4) == 0));
    };
    same_ints(at.tokens, batch.tokens.data(), batch.tokens.size());
    same_ints(at.positions, batch.positions.data(), batch.positions.size());
    same_ints(at.slot_mapping, batch.slot_mapping.data(), batch.slot_mapping.size());
    same_ints(at.query_starts, batch.query_starts.data(), batch.query_starts.size());
    same_ints(at.context_lens, batch.context_lens.data(), batch.context_lens.size());
    same_ints(at.block_table, batch.block_table.data(), batch.block_table.size());
    same_ints(at.logit_tokens, batch.logit_tokens.data(), batch.logit_tokens.size());
    same_ints(at.small_items, plan.small.items.data(), plan.small.items.size() * 5);
    same_ints(at.small_combines, plan.small.combines.data(), plan.small.combines.size() * 4);
    same_ints(at.large_items, plan.large.items.data(), plan.large.items.size() * 5);
    same_ints(at.large_combines, plan.large.combines.data(), plan.large.combines.size() * 4);
  }
}

}  // namespace pagedinfer
