#include <doctest/doctest.h>

#include <array>

#include "kv/paged_pool.h"
#include "tests/support/sched_steps.h"

using namespace pagedinfer;

using Ints = std::vector<int32_t>;

namespace {

Request request_of(std::vector<TokenId> prompt) {
  Request request;
  request.prompt = std::move(prompt);
  return request;
}

Sequence sequence(const Request& request, int64_t number, std::vector<TokenId> tokens,
                  int num_computed, std::vector<int32_t> block_table) {
  Sequence seq(request, {number}, 100);
  seq.tokens = std::move(tokens);
  seq.num_computed = num_computed;
  seq.lease.block_table = std::move(block_table);
  return seq;
}

}  // namespace

TEST_CASE("a batch is flat: tokens of all sequences one after the other, no padding") {
  const Request first = request_of({1, 2, 3}), second = request_of({11, 12, 13, 14, 15, 16, 17}),
                third = request_of({21, 22});
  const Sequence decode = sequence(first, 0, {1, 2, 3, 4, 5, 6}, 5, {40, 8});
  const Sequence middle = sequence(second, 1, second.prompt, 3, {0, 24, 32});
  const Sequence last = sequence(third, 2, third.prompt, 0, {16});
  StepPlan plan;
  plan.add_decode(decode);
  plan.add_prefill(middle, 2);
  plan.add_prefill(last, 2);
  plan.copies = {{60, 64, 3}};
  Batch batch;
  build_batch(plan, std::array{&decode, &middle, &last}, 4, batch);
  REQUIRE(batch.copies.size() == 1);
  CHECK(batch.copies[0].destination == 64);
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

TEST_CASE("a decode of guessed tokens has a row of logits for each of its tokens") {
  const Request request = request_of({1, 2, 3});
  Sequence seq = sequence(request, 0, {1, 2, 3, 4, 5, 6, 7}, 3, {8, 16});
  seq.num_drafted = 3;
  StepPlan plan;
  plan.add_decode(seq);
  Batch batch;
  build_batch(plan, std::array<const Sequence*, 1>{&seq}, 4, batch);
  CHECK(batch.tokens == Ints{4, 5, 6, 7});
  CHECK(batch.positions == Ints{3, 4, 5, 6});
  CHECK(batch.slot_mapping == Ints{11, 16, 17, 18});
  CHECK(batch.context_lens == Ints{7});
  CHECK(batch.logit_tokens == Ints{0, 1, 2, 3});
}

TEST_CASE("a batch built into a used one is as good as new") {
  Steps s(std::make_unique<PagedPool>(100, 4), {.prefill_chunk_size = 5, .max_model_len = 64});
  for (int i = 0; i < 8; ++i) s.submit(3 + 5 * i, 1 + i);
  while (!s.scheduler.idle()) {
    const StepPlan plan = s.plan();
    Batch fresh;
    build_batch(plan, s.scheduler.sequences_of(plan), 4, fresh);
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
  build_batch({}, {}, 16, batch);
  CHECK(batch.num_tokens() == 0);
  CHECK(batch.num_seqs() == 0);
  CHECK(batch.query_starts == Ints{0});
  CHECK(batch.max_blocks == 0);
}
