// What a step of the CUDA backend copies to the device.
#include <cstring>
#include <vector>

#include "cuda_batches.h"
#include "kernels/attention_plan.h"
#include "ops/cuda/step_arrays.h"
#include "ops_support.h"

namespace pagedinfer {
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
