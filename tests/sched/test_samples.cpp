// Several samples of one prompt, and guessed tokens.
#include <doctest/doctest.h>

#include "kv/contiguous_pool.h"
#include "kv/paged_pool.h"
#include "tests/support/aborts.h"
#include "tests/support/sched_steps.h"

using namespace pagedinfer;

namespace {

using Ints = std::vector<int32_t>;

}  // namespace

TEST_CASE("a prompt of several samples is computed once and forked") {
  Steps s(std::make_unique<PagedPool>(20, 4), {.max_model_len = 32});
  s.submit(6, 3, 3);
  const StepPlan first = s.plan();
  REQUIRE(first.chunks.size() == 1);
  CHECK(first.num_tokens == 6);
  CHECK(first.num_logits == 1);
  CHECK(first.draws.size() == 3);
  s.advance(first);
  CHECK(ages_of(s.scheduler.running()) == samples({0, 1, 2}));
  CHECK(s.running(0, 2).sample == 2);

  const StepPlan second = s.plan();
  CHECK(second.num_decodes == 3);
  CHECK(second.copies.size() == 2);  // of the block that is not full; the last one writes to it
  CHECK(s.batch.tokens == Ints{-1, -2, -3});
  CHECK(s.commit_tokens(first, {7, 8, 9}, samples({1})).finished.size() == 1);
  CHECK(s.running(0).generated()[0] == 7);
  CHECK(s.running(0, 2).generated()[0] == 9);
  s.advance(second);
  CHECK(s.commit_tokens(second, {1, 1, 1}).num_surplus == 1);
  CHECK(s.plan().copies.empty());
}

TEST_CASE("a group is admitted when all its samples may run, and nothing overtakes it") {
  Steps s(std::make_unique<PagedPool>(40, 4), {.max_running = 4, .max_model_len = 32});
  s.submit(5, 3);
  const Age group = s.submit(5, 3, 4);
  s.submit(5, 3);
  for (int i = 0; i < 3; ++i) {
    s.step();
    CHECK(s.scheduler.waiting().contains(group));
    CHECK(s.scheduler.num_waiting() == 2);
  }
  CHECK(s.step().num_admitted == 1);
  CHECK(s.scheduler.num_running() == 4);
  while (!s.scheduler.idle()) s.step();
}

TEST_CASE("a group of more samples than may run begins alone, and the others follow") {
  Steps s(std::make_unique<PagedPool>(40, 4), {.max_running = 2, .max_model_len = 32});
  s.submit(5, 3, 5);
  s.step();
  CHECK(ages_of(s.scheduler.running()) == samples({0, 1}));
  CHECK(ages_of(s.scheduler.waiting()) == samples({2, 3, 4}));
  while (!s.scheduler.idle()) s.step();
}

TEST_CASE("a sample that finds no room waits and computes the prompt again") {
  const auto run = [](std::unique_ptr<KvPool> pool, int max_running, int64_t num_recomputed) {
    Steps s(std::move(pool),
            {.max_running = max_running, .max_model_len = 12, .admission_reserve = 0.0});
    s.submit(6, 3, 2);
    s.step();
    CHECK(ages_of(s.scheduler.running()) == samples({0}));
    REQUIRE(ages_of(s.scheduler.waiting()) == samples({1}));
    CHECK(s.waiting(0, 1).num_known() == 7);
    while (!s.scheduler.running().contains({0, 1})) s.step();
    CHECK(s.running(0, 1).num_recomputed == num_recomputed);
    while (!s.scheduler.idle()) s.step();
  };
  run(std::make_unique<ContiguousPool>(12, 12), 8, 6);
  run(std::make_unique<PagedPool>(3, 4), 1, 6);
}

// Without the prefix cache too: what a group shares is found by its samples alone.
TEST_CASE("a sample that waited shares the prompt with those that run") {
  Steps s(std::make_unique<PagedPool>(20, 4), {.max_running = 2, .max_model_len = 32});
  s.submit(10, 6, 3);
  s.step();
  REQUIRE(ages_of(s.scheduler.waiting()) == samples({2}));
  s.step();
  const StepPlan plan = s.plan();
  s.advance(plan);
  s.commit(plan, samples({0}));
  s.step();
  REQUIRE(s.scheduler.running().contains({0, 2}));
  const KvLease &one = s.running(0, 1).lease, &two = s.running(0, 2).lease;
  CHECK(one.block_table[0] == two.block_table[0]);
  CHECK(one.block_table[1] == two.block_table[1]);
  CHECK(one.block_table[2] != two.block_table[2]);
  CHECK(s.running(0, 2).num_recomputed == 2);
  while (!s.scheduler.idle()) s.step();
}

TEST_CASE("samples that end with their first token hold no memory") {
  Steps s(std::make_unique<PagedPool>(20, 4), {.max_model_len = 32});
  s.submit(6, 1, 3);
  const StepPlan plan = s.plan();
  s.advance(plan);
  CHECK(s.pool->stats().positions_leased == 0);
  CHECK(s.plan().chunks.empty());
  CHECK(s.commit(plan).size() == 3);
  CHECK(s.scheduler.idle());
}

TEST_CASE("aborting a step in flight takes the samples that it forked") {
  Steps s(std::make_unique<PagedPool>(20, 4), {.max_model_len = 32});
  s.submit(6, 3, 3);
  const StepPlan plan = s.plan();
  s.advance(plan);
  CHECK(s.scheduler.abort(plan).size() == 3);
  CHECK(s.scheduler.idle());
  CHECK(s.pool->stats().positions_leased == 0);
}

TEST_CASE("as many guessed tokens are verified as fit the step and the pool") {
  const auto drafted = [](int num_blocks) {
    auto s = std::make_unique<Steps>(std::make_unique<PagedPool>(num_blocks, 4),
                                     SchedulerLimits{.max_step_tokens = 10,
                                                     .max_running = 4,
                                                     .max_model_len = 16,
                                                     .admission_reserve = 0.0});
    for (int i = 0; i < 2; ++i) s->submit(3, 12);
    s->step();
    for (int64_t i = 0; i < 2; ++i) s->scheduler.draft({i}, std::vector(5, TokenId{1}));
    return s;
  };
  SUBCASE("of the step") {
    const auto s = drafted(5);
    const StepPlan plan = s->plan();
    CHECK(plan.chunks[0].count == 1 + 5);
    CHECK(plan.chunks[1].count == 1 + 1);  // six are left beside a token for each that may run
    CHECK(plan.draws.size() == 8);
    s->advance(plan);
    CHECK(aborts([&] { static_cast<void>(s->scheduler.plan()); }));  // not committed
    s->commit_tokens(plan, {1, 1, 2, 1, 1, 1, 2, 1});  // the first two hold, and none of the second
    CHECK(s->running(0).num_generated() == 1 + 3);
    CHECK(s->running(0).tokens.back() == 2);
    CHECK(s->running(1).num_generated() == 1 + 1);
  }
  SUBCASE("of the pool, where nothing is preempted for them") {
    const auto s = drafted(4);
    const StepPlan plan = s->plan();
    CHECK(plan.num_preempted == 0);
    CHECK(plan.chunks[0].count == 1 + 5);  // the last two blocks
    CHECK(plan.chunks[1].count == 1);
    s->finish(plan);
  }
}
