#include <doctest/doctest.h>

#include "kv/paged_pool.h"
#include "tests/support/sched_steps.h"

using namespace pagedinfer;

using Ints = std::vector<int32_t>;

namespace {

Sequence sequence(int64_t age, std::vector<TokenId> tokens, int num_prompt, int num_computed,
                  std::vector<int32_t> block_table) {
  Request request;
  request.prompt.assign(tokens.begin(), tokens.begin() + num_prompt);
  Sequence seq(std::move(request), age, 100);
  seq.tokens = std::move(tokens);
  seq.num_computed = num_computed;
  seq.lease.block_table = std::move(block_table);
  return seq;
}

}  // namespace

TEST_CASE("a batch is flat: tokens of all sequences one after the other, no padding") {
  Sequence decode = sequence(0, {1, 2, 3, 4, 5, 6}, 3, 5, {40, 8});
  Sequence middle = sequence(1, {11, 12, 13, 14, 15, 16, 17}, 7, 3, {0, 24, 32});
  Sequence last = sequence(2, {21, 22}, 2, 0, {16});
  StepPlan plan;
  plan.add(decode, 1);
  plan.num_decodes = 1;
  plan.add(middle, 2);
  plan.add(last, 2);
  Batch batch;
  build_batch(plan, 4, batch);
  CHECK(batch.tokens == Ints{6, 14, 15, 21, 22});
  CHECK(batch.positions == Ints{5, 3, 4, 0, 1});
  CHECK(batch.slot_mapping == Ints{9, 3, 24, 16, 17});
  CHECK(batch.query_starts == Ints{0, 1, 3, 5});
  CHECK(batch.context_lens == Ints{6, 5, 2});
  CHECK(batch.max_blocks == 2);
  CHECK(batch.block_table == Ints{40, 8, 0, 24, 16, -1});
  CHECK(batch.logit_tokens == Ints{0, 4});  // the middle chunk does not complete
  CHECK(batch.block_size == 4);
}

TEST_CASE("a batch built into a used one is as good as new") {
  Steps s(std::make_unique<PagedPool>(100, 4), {.prefill_chunk_size = 5, .max_model_len = 64});
  for (int i = 0; i < 8; ++i) s.submit(3 + 5 * i, 1 + i);
  while (!s.scheduler.idle()) {
    const StepPlan plan = s.plan();
    Batch fresh;
    build_batch(plan, 4, fresh);
    REQUIRE(s.batch.tokens == fresh.tokens);
    REQUIRE(s.batch.positions == fresh.positions);
    REQUIRE(s.batch.slot_mapping == fresh.slot_mapping);
    REQUIRE(s.batch.query_starts == fresh.query_starts);
    REQUIRE(s.batch.context_lens == fresh.context_lens);
    REQUIRE(s.batch.block_table == fresh.block_table);
    REQUIRE(s.batch.logit_tokens == fresh.logit_tokens);
    REQUIRE(s.batch.max_blocks == fresh.max_blocks);
    s.finish(plan);
  }
}

TEST_CASE("an empty plan is an empty batch") {
  Batch batch;
  build_batch({}, 16, batch);
  CHECK(batch.num_tokens() == 0);
  CHECK(batch.num_seqs() == 0);
  CHECK(batch.query_starts == Ints{0});
  CHECK(batch.max_blocks == 0);
}
