// The few shapes that decode steps are padded to, so that their graphs can be replayed.
#include <doctest/doctest.h>

#include <set>

#include "kernels/attention_plan.h"
#include "ops/cuda/step_shape.h"
#include "tests/support/cuda_batches.h"

namespace pagedinfer {
namespace {

constexpr int kMultiprocessors = 132;

StepShape shape_for(const Batch& batch, const AttentionShape& attention, const StepBounds& bounds) {
  std::vector<kernels::AttentionPlan> plans;
  plan_step(batch, attention, attention_limits(attention, bounds, kMultiprocessors), plans);
  return shape_of(batch, plans);
}

}  // namespace

TEST_CASE("padding adds less than half the rows, or less than an eighth if there are many") {
  for (int64_t rows = 1; rows < 3000; ++rows) {
    const int64_t full = rows_bucket(rows);
    CHECK(full >= rows);
    CHECK(full >= rows_bucket(rows - 1));
    CHECK(rows_bucket(full) == full);
    CHECK(full < 2 * rows);
    if (rows > 64) CHECK(full - rows < rows / 8);
  }
  std::set<int64_t> up_to_256;
  for (int64_t rows = 1; rows <= 256; ++rows) up_to_256.insert(rows_bucket(rows));
  CHECK(up_to_256.size() == 35);
}

TEST_CASE("a bucket is at least its count, and buckets are ascending ranges of counts") {
  Random random{5};
  for (int64_t count = 0; count < 5000; ++count) {
    const int64_t shares = int64_t{1} << random.below(6), least = int64_t{1} << random.below(5);
    const int64_t full = share_bucket(count, shares, least);
    CHECK(full >= count);
    CHECK(share_bucket(full, shares, least) == full);
    CHECK(share_bucket(count + 1, shares, least) >= full);
    // Less than a share of the power of two above, which is less than twice the count.
    CHECK((full - count < least || (full - count) * shares < 2 * count));
  }
}

TEST_CASE("a padded step holds the step and is within the bounds") {
  Random random{6};
  for (int run = 0; run < 2000; ++run) {
    const int kv_heads = random.between(1, 3), group = random.between(1, random.below(4) ? 8 : 150);
    const StepBounds bounds = {.tokens = random.between(1, 600),
                               .sequences = random.between(1, 300),
                               .context = random.between(1, random.below(3) ? 3000 : 100000),
                               .block_size = random.between(1, 300)};
    const AttentionShape attention = {.heads = kv_heads * group,
                                      .kv_heads = kv_heads,
                                      .head_dim = 64,
                                      .windows = {0, random.between(1, 2000)}};
    const StepShape own = shape_for(random_decodes(random, bounds), attention, bounds);
    REQUIRE(only_decodes(own));
    const StepShape full = padded(own, attention, bounds);
    CHECK(full.tokens >= own.tokens);
    CHECK(full.tokens <= std::min(bounds.tokens, bounds.sequences));
    CHECK(full.sequences == full.tokens);
    CHECK(full.logits == full.tokens);
    CHECK(full.block_size == own.block_size);
    CHECK(full.max_blocks >= own.max_blocks);
    CHECK(full.max_blocks <= max_blocks(bounds));
    REQUIRE(full.plans.size() == 2);
    for (size_t i = 0; i < 2; ++i) {
      const PlanShape &before = own.plans[i], &after = full.plans[i];
      CHECK(after.small_items >= before.small_items);
      CHECK(after.large_items >= before.large_items);
      // No kernel is launched without work.
      CHECK((after.small_items > 0) == (before.small_items > 0));
      CHECK((after.large_items > 0) == (before.large_items > 0));
      CHECK(after.states >= before.states);
      CHECK(after.states == max_attention_states(attention, bounds));
      // Rows, and an eighth of what is cut.
      const int64_t items = before.small_items + before.large_items;
      const int64_t tiles = before.small_items > 0 ? (group + 15) / 16 : (group + 63) / 64;
      CHECK(after.small_items + after.large_items - items <=
            (full.tokens - own.tokens) * tiles + 8 + items / 8);
    }
  }
}

TEST_CASE("sequences that grow change the shape rarely") {
  const StepBounds bounds = {.tokens = 2048, .sequences = 256, .context = 131072, .block_size = 16};
  const AttentionShape attention = {
      .heads = 24, .kv_heads = 8, .head_dim = 128, .windows = {0, 512}};
  Random random{7};
  for (const int sequences : {1, 7, 64, 256}) {
    std::vector<int> lengths;
    for (int s = 0; s < sequences; ++s) lengths.push_back(random.between(300, 700));
    std::set<StepShape> shapes;
    constexpr int kSteps = 1000;
    for (int step = 0; step < kSteps; ++step) {
      Batch batch = {.query_starts = {0}, .block_size = bounds.block_size};
      for (int s = 0; s < sequences; ++s) {
        const int position = lengths[static_cast<size_t>(s)] + step;
        batch.tokens.push_back(1);
        batch.positions.push_back(position);
        batch.logit_tokens.push_back(s);
        batch.query_starts.push_back(s + 1);
        batch.context_lens.push_back(position + 1);
        batch.max_blocks = std::max(batch.max_blocks, position / bounds.block_size + 1);
      }
      shapes.insert(padded(shape_for(batch, attention, bounds), attention, bounds));
    }
    CAPTURE(sequences);
    CHECK(shapes.size() <= 30);
  }
}

}  // namespace pagedinfer
