// Prompts in pieces: chunk sizes, budgets, and batches that gather.
#include <doctest/doctest.h>

#include "kv/paged_pool.h"
#include "tests/support/sched_steps.h"

using namespace pagedinfer;

namespace {

std::unique_ptr<KvPool> large_pool() { return std::make_unique<PagedPool>(400, 4); }

}  // namespace

TEST_CASE("a prompt is computed in as many chunks as it needs, and only the last one samples") {
  for (int length : {1, 3, 7, 8, 9, 15, 16, 17, 24, 25}) {
    CAPTURE(length);
    Steps s(large_pool(), {.prefill_chunk_size = 8, .max_model_len = 64});
    s.submit(length, 1);
    for (int start = 0; start < length; start += 8) {
      const StepPlan plan = s.plan();
      REQUIRE(plan.chunks.size() == 1);
      CHECK(plan.chunks[0].start == start);
      CHECK(plan.chunks[0].count == std::min(8, length - start));
      const bool is_last = start + 8 >= length;
      CHECK(plan.chunks[0].completes() == is_last);
      CHECK(s.batch.num_logits() == is_last);
      CHECK(s.finish(plan).size() == is_last);
      CHECK(s.scheduler.idle() == is_last);
    }
  }
}

TEST_CASE("whole prompts are computed in one step each") {
  Steps s(large_pool(), {.chunked_prefill = false,
                         .prefill_chunk_size = 8,
                         .max_step_tokens = 68,
                         .max_running = 4,
                         .max_model_len = 64});
  for (int length : {40, 20, 9, 3}) s.submit(length, 2);
  StepPlan plan = s.plan();
  REQUIRE(plan.chunks.size() == 2);  // 9 more would be 69
  CHECK(plan.chunks[0].count == 40);
  CHECK(plan.chunks[1].count == 20);
  s.finish(plan);
  plan = s.plan();
  CHECK(plan.num_decodes == 2);
  CHECK(plan.num_prefills() == 2);
  s.finish(plan);
}

TEST_CASE("at most so many chunks in a step, those in progress first") {
  Steps s(large_pool(), {.prefill_chunk_size = 8, .max_prefill_chunks = 2, .max_model_len = 64});
  s.submit(20, 2);
  s.submit(3, 2);
  s.submit(3, 2);
  StepPlan plan = s.plan();
  CHECK(plan.num_prefills() == 2);
  CHECK(plan.num_admitted == 2);
  s.finish(plan);
  plan = s.plan();
  CHECK(plan.num_decodes == 1);
  REQUIRE(plan.num_prefills() == 2);
  CHECK(plan.chunks[1].age == Age{0});  // goes on
  CHECK(plan.chunks[1].start == 8);
  CHECK(plan.chunks[2].age == Age{2});  // is new
  s.finish(plan);
}

TEST_CASE("decodes are served in every step while prompts take what the budget leaves") {
  Steps s(
      large_pool(),
      {.prefill_chunk_size = 100, .max_step_tokens = 10, .max_running = 10, .max_model_len = 99});
  for (int i = 0; i < 4; ++i) s.submit(1, 30);
  CHECK(s.step().num_tokens == 4);
  s.submit(15, 1);
  s.submit(90, 1);
  for (int tokens : {6, 6, 3 + 3, 6}) {
    const StepPlan plan = s.step();
    CHECK(plan.num_decodes == 4);
    CHECK(plan.num_tokens == 4 + tokens);
  }
}

TEST_CASE("requests at different progress share a step") {
  Steps s(large_pool(), {.prefill_chunk_size = 4, .max_model_len = 64});
  s.submit(12, 1);
  s.step();
  s.submit(9, 1);  // arrives while the first is in progress
  const StepPlan plan = s.plan();
  REQUIRE(plan.chunks.size() == 2);
  CHECK(plan.chunks[0].start == 4);
  CHECK(plan.chunks[1].start == 0);
  s.finish(plan);
}

TEST_CASE("a sequence may end with its first token") {
  Steps s(large_pool(), {.max_model_len = 64});
  s.submit(5, 10);
  s.submit(5, 10);
  const StepPlan plan = s.plan();
  s.scheduler.advance(plan);
  const std::vector<Sequence> finished = s.commit_tokens(plan, {7, 8}, requests({0})).finished;
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].finished == FinishReason::kStop);
  CHECK(finished[0].tokens.back() == 7);
  CHECK(finished[0].num_generated() == 1);
  CHECK(s.running(1).tokens.back() == 8);
  CHECK(s.step().num_decodes == 1);
}

TEST_CASE("an answer is cut off at the model's length") {
  Steps s(large_pool(), {.max_model_len = 10});
  s.submit(7, 100);
  int64_t steps = 0;
  while (!s.scheduler.idle()) s.step(), ++steps;
  CHECK(steps == 3);
}

TEST_CASE("a static batch fills, runs until all of it ended, and admits nothing meanwhile") {
  Steps s = static_steps(3);
  s.submit(5, 3);
  s.submit(5, 1);
  CHECK(s.step().chunks.empty());  // the window isn't full
  s.submit(5, 1);
  CHECK(s.step().num_admitted == 3);
  s.submit(5, 1);
  s.scheduler.end_input();
  for (int i = 0; i < 2; ++i) CHECK(s.step().num_tokens == 1);  // the ended cost nothing
  CHECK(s.step().num_admitted == 1);                            // the input has ended
  CHECK(s.scheduler.idle());
}

TEST_CASE("a static batch starts with what has arrived") {
  Steps s = static_steps(4);
  s.scheduler.end_batch();  // without one nothing starts
  CHECK(s.step().chunks.empty());
  s.submit(5, 2);
  s.submit(5, 1);
  CHECK(s.scheduler.may_wait_for_input());
  s.scheduler.end_batch();
  CHECK_FALSE(s.scheduler.may_wait_for_input());
  CHECK(s.step().num_admitted == 2);
  s.submit(5, 1);
  s.scheduler.end_batch();
  CHECK(s.step().num_admitted == 0);  // the batch runs
  s.submit(5, 1);                     // what arrives later fills the next one again
  CHECK(s.step().chunks.empty());
  s.scheduler.end_batch();
  CHECK(s.step().num_admitted == 2);
}

TEST_CASE("a static batch has as many members as may run, also if they do not fit one step") {
  Steps s = static_steps(5);
  for (int i = 0; i < 5; ++i) s.submit(15, 4);
  const StepPlan plan = s.step();
  CHECK(plan.num_admitted == 4);
  CHECK(plan.num_prefills() == 2);
  CHECK(s.step().num_tokens == 2 + 2 * 15);
}

TEST_CASE("prompts that are scored leave draws to those that wait") {
  Steps s(large_pool(), {.max_running = 64, .max_model_len = 400});
  for (int i = 0; i < 12; ++i) {
    s.requests.push_back(make_request(i, i == 0 ? 300 : 5, 8));
    if (i == 0) s.requests.back().num_prompt_log_probs = 0;
    s.scheduler.submit(s.requests.back());
  }
  const StepPlan plan = s.plan();
  CHECK(plan.num_admitted == 12);
  CHECK(plan.num_scores == 64 / 2 + 1);  // one in place of what it does not draw yet
  s.finish(plan);
  CHECK(s.plan().num_scores == 64 - 12 + 1);  // when no request waits
}
