// An aborted step leaves no trace, and no sequence waits for ever.
#include <doctest/doctest.h>

#include "kv/contiguous_pool.h"
#include "kv/paged_pool.h"
#include "tests/support/sched_steps.h"

using namespace pagedinfer;

namespace {

std::vector<DrawnToken> ones(const StepPlan& plan, PlanSequences, const Batch&) {
  return std::vector<DrawnToken>(plan.draws.size(), {.token = 1});
}

}  // namespace

TEST_CASE("aborting a step closes the leases of its sequences and leaves the others as they were") {
  Steps s(std::make_unique<PagedPool>(20, 4),
          {.prefill_chunk_size = 4, .max_prefill_chunks = 1, .max_model_len = 32});
  s.submit(4, 8);   // decoding by then
  s.submit(16, 8);  // in its second of four chunks
  s.submit(4, 8);   // waiting: one chunk in a step
  for (int i = 0; i < 2; ++i) s.step();
  const StepPlan plan = s.plan();
  REQUIRE(plan.chunks.size() == 2);
  const std::vector<Sequence> aborted = s.scheduler.abort(plan);
  REQUIRE(aborted.size() == 2);
  CHECK(aborted[0].age == Age{0});
  CHECK(aborted[0].num_generated() == 2);
  CHECK(aborted[1].age == Age{1});
  CHECK(aborted[1].num_computed == 4);
  for (const Sequence& seq : aborted) CHECK(seq.lease.block_table.empty());
  CHECK(s.pool->stats().positions_leased == 0);
  CHECK(ages_of(s.scheduler.waiting()) == requests({2}));
  for (int i = 0; i < 8; ++i) CHECK(s.step().num_tokens == (i == 0 ? 4 : 1));
  CHECK(s.scheduler.idle());
}

TEST_CASE("a running sequence outside the aborted step continues") {
  Steps s = static_steps(4);
  for (int i = 0; i < 4; ++i) s.submit(15, 2);
  CHECK(s.scheduler.abort(s.plan()).size() == 2);
  check_books(*s.pool, s.scheduler);
  CHECK(ages_of(s.scheduler.running()) == requests({2, 3}));
  CHECK(s.step().num_prefills() == 2);
  CHECK(s.step().num_decodes == 2);
  CHECK(s.scheduler.idle());
}

TEST_CASE("a sequence preempted for an aborted step is admitted again") {
  Steps s(std::make_unique<PagedPool>(4, 4), {.max_model_len = 16, .admission_reserve = 0.0});
  s.submit(7, 8);
  s.submit(8, 3);
  s.step();
  const StepPlan plan = s.plan();
  CHECK(plan.num_preempted == 1);
  CHECK(s.scheduler.abort(plan).size() == 1);
  CHECK(s.step().num_admitted == 1);
  CHECK(s.step().num_decodes == 1);
  CHECK(s.scheduler.idle());
}

TEST_CASE("clearing removes all sequences and closes their leases") {
  Steps s(std::make_unique<PagedPool>(20, 4), {.max_running = 2, .max_model_len = 32});
  for (int i = 0; i < 4; ++i) s.submit(9, 8);
  s.step();
  s.scheduler.clear();
  CHECK(s.scheduler.idle());
  CHECK(s.pool->stats().positions_leased == 0);
  check_books(*s.pool, s.scheduler);
}

// drive() checks the bound on waiting. Short requests keep coming while long ones wait; a long
// one that grows keeps being in the way; the pool is barely larger than the longest.
TEST_CASE("every sequence ends within the bound on waiting") {
  Counters counters;
  for (int trial = 0; trial < scaled(100); ++trial) {
    INFO("trial " << trial);
    WorkloadRandom random(trial);
    std::vector<Arrival> arrivals;
    for (int i = 0, time = 0; i < 60; ++i, time += random.pick(0, 3)) {
      const bool is_long = random.one_in(5);
      arrivals.push_back({time, make_request(i, is_long ? random.pick(20, 40) : random.pick(1, 4),
                                             is_long ? random.pick(1, 40) : random.pick(1, 8))});
    }
    const int block_size = 1 << random.pick(0, 4);
    PagedPool pool(80 / block_size + random.pick(0, 2), block_size);
    const int max_running = random.pick(1, 8);
    drive(pool,
          {.prefill_chunk_size = random.pick(1, 8),
           .max_prefill_chunks = random.pick(1, 2),
           .max_step_tokens = max_running + random.pick(0, 3),
           .max_running = max_running,
           .max_waiting = random.pick(1, 60),
           .max_model_len = 80,
           .admission_reserve = random.one_in(2) ? 0.0 : 0.2},
          arrivals, 0, ones, counters);
  }
  std::printf("every sequence ends within the bound on waiting\n");
  counters.print_and_require({"runs", "steps", "preemptions", "readmissions"});
}
