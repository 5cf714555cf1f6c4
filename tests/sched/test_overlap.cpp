// Plans that are made before the plan before them is committed.
#include <doctest/doctest.h>

#include <optional>

#include "kv/contiguous_pool.h"
#include "kv/paged_pool.h"
#include "tests/support/sched_steps.h"

using namespace pagedinfer;

using Ints = std::vector<int32_t>;

TEST_CASE("the next step continues from the placeholder tokens of the step in flight") {
  Steps s(std::make_unique<PagedPool>(40, 4), {.prefill_chunk_size = 6, .max_model_len = 32});
  s.submit(5, 10);
  s.submit(9, 10);  // in two chunks
  s.submit(4, 10);
  const StepPlan first = s.plan();
  CHECK(s.batch.num_logits() == 2);
  s.advance(first);
  const StepPlan second = s.plan();
  CHECK(second.num_decodes == 2);
  CHECK(Ints(s.batch.tokens.begin(), s.batch.tokens.begin() + 2) == Ints{-1, -2});
  CHECK(s.running(2).generated()[0] == -2);
  s.commit_tokens(first, {7, 8}, {});
  CHECK(s.running(0).generated()[0] == 7);
  CHECK(s.running(2).generated()[0] == 8);
  s.advance(second);
  s.plan();
  CHECK(s.batch.tokens == Ints{-1, -3, -2});  // by age; the rows by kind of chunk
}

TEST_CASE("a sequence whose last token is in flight frees its memory for the next plan") {
  const auto check = [](std::unique_ptr<KvPool> pool) {
    Steps s(std::move(pool), {.max_model_len = 32});
    for (int i = 0; i < 3; ++i) s.submit(5, 4);
    std::optional<StepPlan> before;
    for (int i = 0; i < 3 * 4; ++i) {
      const StepPlan plan = s.plan();
      CHECK(plan.chunks.size() == 1);  // never an empty step, and no surplus
      if (before) CHECK(s.commit(*before).size() == (i % 4 == 0));
      s.advance(plan);
      before = plan;
    }
    CHECK(s.scheduler.num_running() == 0);
    CHECK_FALSE(s.scheduler.idle());
    CHECK(s.pool->stats().positions_leased == 0);
    CHECK(s.commit(*before).size() == 1);
    CHECK(s.scheduler.idle());
  };
  check(std::make_unique<ContiguousPool>(32, 32));
  check(std::make_unique<PagedPool>(2, 4));
}

TEST_CASE("the token of a surplus row is dropped") {
  Steps s(std::make_unique<PagedPool>(20, 4), {.max_model_len = 32});
  for (int i = 0; i < 3; ++i) s.submit(5, 10);
  const StepPlan first = s.plan();
  s.advance(first);
  StepPlan second = s.plan();
  const std::vector<Sequence> finished = s.commit(first, requests({1}));
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].age == Age{1});
  CHECK(finished[0].num_generated() == 1);
  CHECK(finished[0].tokens.back() == 1);
  CHECK(finished[0].lease.block_table.empty());
  CHECK(s.pool->stats().positions_leased == 2 * 8);
  CHECK(s.scheduler.find(second.draws[1]) == nullptr);

  SUBCASE("when the step was launched") {
    s.advance(second);
    check_books(*s.pool, s.scheduler);
    const Scheduler::Committed committed = s.commit_tokens(second, {7, 8, 9}, requests({1}));
    CHECK(committed.finished.empty());
    CHECK(committed.num_surplus == 1);
    CHECK(s.running(0).tokens.back() == 7);
    CHECK(s.running(2).tokens.back() == 9);
  }
  SUBCASE("and is not there when the step is launched once more") {
    s.scheduler.erase_finished(second);
    REQUIRE(second.chunks.size() == 2);
    CHECK(second.num_decodes == 2);
    CHECK(second.num_tokens == 2);
    CHECK(second.chunks[1].age == Age{2});
    s.advance(second);
    CHECK(s.commit(second).empty());
    CHECK(s.running(2).num_generated() == 2);
  }
}

TEST_CASE("a sequence preempted with a token in flight receives it while it waits") {
  Steps s(std::make_unique<PagedPool>(4, 4), {.max_model_len = 16, .admission_reserve = 0.0});
  s.submit(7, 3);
  s.submit(8, 3);
  const StepPlan first = s.plan();
  s.advance(first);
  const StepPlan second = s.plan();
  CHECK(second.num_preempted == 1);
  REQUIRE(ages_of(s.scheduler.waiting()) == requests({1}));
  CHECK(s.waiting(1).tokens.back() == -2);

  SUBCASE("and goes on from there") {
    CHECK(s.commit(first).empty());
    CHECK(s.waiting(1).tokens.back() == 1);
    CHECK(s.waiting(1).max_computed == 8);
    s.advance(second);
    s.commit(second);
    while (!s.scheduler.idle()) s.step();
  }
  SUBCASE("and may end there, with nothing to compute again") {
    const std::vector<Sequence> finished = s.commit(first, requests({1}));
    REQUIRE(finished.size() == 1);
    CHECK(finished[0].num_generated() == 1);
    CHECK(finished[0].num_preemptions == 1);
    CHECK(finished[0].num_recomputed == 0);
    CHECK(s.scheduler.num_waiting() == 0);
    s.advance(second);
    CHECK(s.commit(second).empty());
  }
}

TEST_CASE("aborting a step in flight finds running, waiting and leaving sequences") {
  Steps s(std::make_unique<PagedPool>(5, 4), {.max_model_len = 16, .admission_reserve = 0.0});
  s.submit(3, 1);  // its last token is in flight, then
  s.submit(8, 5);  // takes its block
  s.submit(8, 5);  // is preempted
  s.submit(2, 5);  // is in neither step
  const StepPlan first = s.plan();
  REQUIRE(first.chunks.size() == 3);
  s.advance(first);
  const StepPlan second = s.plan();
  REQUIRE(second.num_preempted == 1);
  REQUIRE(second.chunks.size() == 1);
  const std::vector<Sequence> aborted = s.scheduler.abort(first);
  CHECK(aborted.size() == 3);
  CHECK(s.scheduler.abort(second).empty());
  for (const Sequence& seq : aborted) CHECK(seq.lease.block_table.empty());
  s.advance(second);  // no sequence is left in it
  CHECK(s.commit(second).empty());
  CHECK(s.pool->stats().positions_leased == 0);
  while (!s.scheduler.idle()) s.step();
}

TEST_CASE("clearing closes the leases of a step in flight") {
  Steps s(std::make_unique<PagedPool>(20, 4), {.max_running = 2, .max_model_len = 32});
  s.submit(9, 1);
  s.submit(9, 8);
  s.advance(s.plan());
  s.plan();
  s.scheduler.clear();
  CHECK(s.scheduler.idle());
  CHECK(s.pool->stats().positions_leased == 0);
}

TEST_CASE("a plan says whether it draws in a form, and the next may be made before its commit") {
  Steps s(std::make_unique<PagedPool>(20, 4), {.prefill_chunk_size = 4, .max_model_len = 32});
  s.submit(3, 10);
  s.requests.back().sampling.form = {.kind = FormKind::kRegex, .texts = {"a"}};
  s.submit(6, 10);
  s.requests.back().sampling.form = {.kind = FormKind::kRegex, .texts = {"a"}};
  const StepPlan first = s.plan();
  CHECK(first.is_guided);  // the whole prompt of one
  CHECK(first.may_overlap);
  s.advance(first);
  StepPlan second = s.plan();  // a decode
  CHECK(second.is_guided);
  s.commit(first);
  s.scheduler.erase_finished(second);
  CHECK(second.is_guided);
}

TEST_CASE("a part of a prompt draws in no form") {
  Steps s(std::make_unique<PagedPool>(20, 4), {.prefill_chunk_size = 4, .max_model_len = 32});
  s.submit(6, 10);
  s.requests.back().sampling.form = {.kind = FormKind::kRegex, .texts = {"a"}};
  const StepPlan first = s.plan();
  CHECK_FALSE(first.is_guided);
  s.advance(first);
  CHECK(s.plan().is_guided);
}
