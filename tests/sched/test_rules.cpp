// The rules of scheduling one by one, each in the smallest case that shows it.
#include <doctest/doctest.h>

#include "kv/contiguous_pool.h"
#include "kv/paged_pool.h"
#include "tests/support/sched_steps.h"

using namespace pagedinfer;

TEST_CASE("a request is admitted in the first step after its submission") {
  Steps s(std::make_unique<PagedPool>(8, 4), {.max_model_len = 32});
  CHECK(s.scheduler.idle());
  s.submit(5, 2);
  CHECK_FALSE(s.scheduler.idle());
  CHECK(s.step().num_admitted == 1);
  CHECK(s.step().num_decodes == 1);
  CHECK(s.scheduler.idle());
  CHECK(s.step().chunks.empty());
}

TEST_CASE("first come, first served, up to the number that may run at once") {
  Steps s(std::make_unique<PagedPool>(64, 4), {.max_running = 2, .max_model_len = 32});
  for (int max_tokens : {3, 1, 2, 2}) s.submit(5, max_tokens);
  CHECK(s.step().num_admitted == 2);
  CHECK(ages_of(s.scheduler.running()) == requests({0}));  // 1 ended with its first token
  CHECK(ages_of(s.scheduler.waiting()) == requests({2, 3}));
  CHECK(s.step().num_admitted == 1);
  CHECK(ages_of(s.scheduler.running()) == requests({0, 2}));
  CHECK(s.step().num_admitted == 0);
  CHECK(s.step().num_admitted == 1);
}

TEST_CASE("the window is full at its limit and opens as requests are admitted") {
  Steps s(std::make_unique<PagedPool>(64, 4),
          {.max_running = 1, .max_waiting = 2, .max_model_len = 32});
  CHECK_FALSE(s.scheduler.window_full());
  s.submit(5, 4);
  s.submit(5, 4);
  CHECK(s.scheduler.window_full());
  s.step();
  CHECK_FALSE(s.scheduler.window_full());
}

TEST_CASE("the window is full with many tokens too, a static batch begins with it") {
  for (const Batching batching : {Batching::kContinuous, Batching::kStatic}) {
    Steps s(std::make_unique<PagedPool>(64, 4), {.batching = batching,
                                                 .max_running = 8,
                                                 .max_waiting = 8,
                                                 .max_waiting_tokens = 40,
                                                 .max_model_len = 32});
    s.submit(20, 4);
    s.submit(19, 4);
    CHECK_FALSE(s.scheduler.window_full());
    CHECK(s.scheduler.may_wait_for_input() == (batching == Batching::kStatic));
    s.submit(1, 4);
    CHECK(s.scheduler.window_full());
    CHECK_FALSE(s.scheduler.may_wait_for_input());
    s.step();
    CHECK_FALSE(s.scheduler.window_full());
  }
}

TEST_CASE("memory freed by finished sequences serves waiting ones in the next plan") {
  const auto check = [](std::unique_ptr<KvPool> pool) {
    Steps s(std::move(pool), {.max_model_len = 32});
    for (int i = 0; i < 3; ++i) s.submit(5, 4);
    for (int i = 0; i < 3 * 4; ++i) CHECK(s.step().chunks.size() == 1);  // never an empty step
    CHECK(s.scheduler.idle());
  };
  check(std::make_unique<ContiguousPool>(32, 32));
  check(std::make_unique<PagedPool>(2, 4));
}

TEST_CASE("an admission leaves the reserve, and no sequence overtakes the head of the queue") {
  Steps s(std::make_unique<PagedPool>(10, 4), {.max_model_len = 40});  // a reserve of 2 blocks
  s.submit(12, 5);                                                     // 3 blocks, later 4
  s.submit(21, 2);                                                     // 6 blocks: 1 would be left
  s.submit(4, 2);                                                      // would fit
  CHECK(s.step().num_admitted == 1);
  for (int i = 0; i < 4; ++i) CHECK(s.step().num_admitted == 0);
  CHECK(s.step().num_admitted == 2);
}

TEST_CASE("the reserve does not limit reservations") {
  Steps s(std::make_unique<ContiguousPool>(4 * 32, 32),
          {.max_model_len = 32, .admission_reserve = 1.0});
  for (int i = 0; i < 5; ++i) s.submit(5, 4);
  CHECK(s.step().num_admitted == 4);  // only their number counts
}

TEST_CASE("the reserve never blocks a request that fits alone") {
  for (double reserve : {0.0, 0.2, 0.99, 1.0}) {
    CAPTURE(reserve);
    Steps s(std::make_unique<PagedPool>(10, 4),
            {.max_model_len = 41, .admission_reserve = reserve});
    s.submit(40, 1);  // the whole pool
    s.submit(38, 3);  // grows to the whole pool
    s.submit(1, 40);
    int steps = 0;
    while (!s.scheduler.idle()) {
      REQUIRE(!s.step().chunks.empty());
      REQUIRE(++steps <= 1 + 3 + 40);
    }
  }
}

TEST_CASE("known tokens of a readmitted sequence need room too") {
  Steps s(std::make_unique<PagedPool>(4, 4), {.max_model_len = 17, .admission_reserve = 0.0});
  s.submit(4, 13);
  s.submit(4, 13);
  while (s.step().num_preempted == 0) {
  }
  const Sequence& preempted = s.waiting(1);
  CHECK(preempted.num_known() == 9);  // 3 blocks
  CHECK(preempted.max_computed == 8);
  while (s.scheduler.num_running() > 0 && s.scheduler.running().begin()->first == Age{0}) {
    CHECK(s.scheduler.num_waiting() == 1);  // never beside the elder, who grows to 4 blocks
    s.step();
  }
  CHECK(s.step().num_admitted == 1);
  CHECK(s.running(1).num_computed == 9);
  CHECK(s.running(1).num_recomputed == 8);
  CHECK(s.running(1).num_preemptions == 1);
}

TEST_CASE("the youngest is preempted, keeps its age, and nothing is admitted in that step") {
  Steps s(std::make_unique<PagedPool>(8, 4), {.max_model_len = 32, .admission_reserve = 0.0});
  for (int i = 0; i < 4; ++i) s.submit(7, 12);
  CHECK(s.step().num_admitted == 4);  // 2 blocks each: full
  CHECK(s.step().num_preempted == 0);
  s.submit(1, 1);                  // would fit into what the preempted give back
  const StepPlan plan = s.step();  // 9 tokens each: a third block
  CHECK(plan.num_preempted == 2);
  CHECK(plan.num_decodes == 2);
  CHECK(plan.num_admitted == 0);
  CHECK(ages_of(s.scheduler.running()) == requests({0, 1}));
  CHECK(ages_of(s.scheduler.waiting()) == requests({2, 3, 4}));
  while (!s.scheduler.idle()) s.step();
}

TEST_CASE("no more sequences are preempted than a decode needs") {
  Steps s(std::make_unique<PagedPool>(6, 4), {.max_model_len = 32, .admission_reserve = 0.0});
  s.submit(4, 8);  // needs a second block for its second token
  s.submit(5, 8);
  s.submit(9, 8);
  CHECK(s.step().num_admitted == 3);  // 1 + 2 + 3 blocks
  CHECK(s.step().num_preempted == 1);
  CHECK(ages_of(s.scheduler.running()) == requests({0, 1}));
}

TEST_CASE("a decode that is the youngest is itself preempted") {
  Steps s(std::make_unique<PagedPool>(4, 4), {.max_model_len = 16, .admission_reserve = 0.0});
  s.submit(7, 3);
  s.submit(8, 3);
  CHECK(s.step().num_admitted == 2);
  const StepPlan plan = s.step();
  CHECK(plan.num_decodes == 1);
  CHECK(plan.num_preempted == 1);
  CHECK(ages_of(s.scheduler.waiting()) == requests({1}));
}

TEST_CASE("only decodes preempt: a new prompt waits for room") {
  Steps s(std::make_unique<PagedPool>(4, 4), {.max_model_len = 16, .admission_reserve = 0.0});
  s.submit(10, 3);
  s.submit(8, 2);
  for (int i = 0; i < 3; ++i) {
    const StepPlan plan = s.step();
    CHECK(plan.num_preempted == 0);
    CHECK(plan.chunks.size() == 1);
  }
  CHECK(s.step().num_admitted == 1);
}

TEST_CASE("what never fits the cache is refused with what was found and what is allowed") {
  PagedPool pool(4, 4);
  Scheduler scheduler(pool, {.max_model_len = 20});
  const auto check = [&](int64_t num_prompt, int64_t max_tokens,
                         std::initializer_list<const char*> parts) {
    const Result<> fits = scheduler.fits(num_prompt, max_tokens);
    REQUIRE_FALSE(fits);
    CHECK(fits.error().code == "exceeds_cache");
    for (const char* part : parts) CHECK(fits.error().message.find(part) != std::string::npos);
  };
  check(15, 3, {"15 prompt", "17 cache", "16"});
  CHECK(scheduler.fits(15, 2));  // 16 positions: the last token is not computed
  CHECK(scheduler.fits(16, 1));
  check(15, int64_t{1} << 40, {"19 cache"});  // cut off at the model's length
  CHECK(Scheduler(pool, {.max_model_len = 17}).fits(15, int64_t{1} << 40));
  ContiguousPool reservation(20, 20);
  CHECK(Scheduler(reservation, {.max_model_len = 20}).fits(19, 100));
}

TEST_CASE("the use of the cache counts held tokens, leased positions and the alternative") {
  Steps s(std::make_unique<PagedPool>(10, 4), {.prefill_chunk_size = 3, .max_model_len = 32});
  s.submit(5, 4);
  s.submit(9, 4);
  s.step();
  const CacheUse use = s.scheduler.cache_use();
  CHECK(use.tokens_held == 3 + 3);
  CHECK(s.pool->stats().positions_leased == (2 + 3) * 4);
  CHECK(use.positions_contiguous == 2 * 32);
}
