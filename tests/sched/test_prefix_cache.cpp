// What the scheduler shares: between requests with the prefix cache, and between the samples of a
// request in any case.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "kv/contiguous_pool.h"
#include "kv/paged_pool.h"
#include "tests/support/sched_steps.h"

using namespace pagedinfer;

namespace {

Steps make_steps(SchedulerLimits limits, int num_blocks = 40) {
  limits.max_model_len = 64;
  limits.prefix_cache = true;
  return {std::make_unique<PagedPool>(num_blocks, 4), limits};
}

// A request whose prompt begins with `num_shared` tokens of the first request's.
Age submit_like_first(Steps& s, int num_prompt, int num_shared, int max_tokens = 3,
                      int num_samples = 1) {
  Request request = make_request(std::ssize(s.requests), num_prompt, max_tokens);
  request.num_samples = num_samples;
  std::copy_n(s.requests.front().prompt.begin(), num_shared, request.prompt.begin());
  s.requests.push_back(request);
  return s.scheduler.submit(s.requests.back());
}

void run_all(Steps& s) {
  while (!s.scheduler.idle()) s.step();
}

}  // namespace

TEST_CASE("two requests of one step share what they have in common") {
  Steps s = make_steps({});
  s.submit(18, 3);
  submit_like_first(s, 20, 18);
  const StepPlan plan = s.plan();
  REQUIRE(plan.chunks.size() == 2);
  CHECK(plan.chunks[0].count == 18);
  CHECK(plan.chunks[1].start == 16);
  CHECK(plan.chunks[1].count == 4);
  CHECK(plan.num_found == 16);
  CHECK(s.pool->stats().positions_leased == 4 * (5 + 1));
  s.finish(plan);
  CHECK(s.running(1).num_found == 16);
  run_all(s);
}

TEST_CASE("a prompt that is found whole computes its last token, and writes and copies nothing") {
  Steps s = make_steps({});
  s.submit(16, 3);
  s.step();
  submit_like_first(s, 16, 16);
  const StepPlan plan = s.plan();
  REQUIRE(plan.chunks.size() == 2);
  CHECK(plan.chunks[1].start == 15);
  CHECK(plan.chunks[1].count == 1);
  CHECK(plan.chunks[1].num_logits == 1);
  CHECK(s.batch.slot_mapping[1] == -1);
  CHECK(plan.copies.empty());
  s.finish(plan);
  CHECK(s.running(1).num_found == 15);
  run_all(s);
}

TEST_CASE("no block is computed twice by requests that run together, and none of them waits") {
  Steps s = make_steps({.prefill_chunk_size = 4});
  s.submit(20, 3);
  submit_like_first(s, 20, 20);
  submit_like_first(s, 22, 20);
  StepPlan plan = s.plan();  // each goes on where the one before it ends
  REQUIRE(plan.num_prefills() == 3);
  CHECK(plan.chunks[1].start == 4);
  CHECK(plan.chunks[2].start == 8);
  s.finish(plan);
  int num_tokens = plan.num_tokens;
  plan = s.plan();
  CHECK(plan.chunks[0].start == 12);  // it had fallen behind
  for (; plan.num_decodes < 3; plan = s.plan()) {
    num_tokens += plan.num_tokens - plan.num_decodes;
    s.finish(plan);
  }
  CHECK(num_tokens == 20 + 1 + 2);  // the last token of the second prompt once more
  s.finish(plan);
  run_all(s);
}

TEST_CASE("no block is computed twice, wherever limits cut the chunks") {
  std::mt19937_64 random(5);
  const auto upto = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const int max_running = upto(4, 8);
    Steps s = make_steps({.prefill_chunk_size = upto(4, 19),
                          .max_prefill_chunks = upto(1, 4),
                          .max_step_tokens = max_running + upto(8, 30),
                          .max_running = max_running},
                         200);
    const int num_prompt = upto(20, 50), num_alike = upto(2, 3);
    s.submit(num_prompt, 2);  // the prompts that are alike
    for (int i = 1; i < num_alike; ++i) submit_like_first(s, num_prompt, num_prompt);
    std::vector<int> times(static_cast<size_t>(num_prompt), 0);  // that a token was computed
    while (!s.scheduler.idle()) {
      const StepPlan plan = s.plan();
      for (const Chunk& chunk : plan.chunks) {
        const int end = std::min(chunk.start + chunk.count, num_prompt);
        for (int i = chunk.start; i < end && chunk.age.request < num_alike; ++i) ++times[i];
      }
      s.finish(plan);
      if (s.scheduler.idle() || std::ssize(s.requests) == 12) continue;
      s.submit(upto(1, 6), upto(1, 12));  // others make the room in a step vary
    }
    const int full = (num_prompt - 1) / 4 * 4;  // the last token is computed by each prompt
    CHECK(std::all_of(times.begin(), times.begin() + full, [](int n) { return n == 1; }));
  }
}

TEST_CASE("without the prefix cache requests share nothing") {
  for (const int num_samples : {1, 3}) {
    CAPTURE(num_samples);
    Steps s(std::make_unique<PagedPool>(40, 4), {.max_model_len = 64});
    s.submit(18, 3, num_samples);
    submit_like_first(s, 18, 18, 3, num_samples);
    const StepPlan plan = s.plan();
    CHECK(plan.num_tokens == 36);
    CHECK(s.pool->stats().positions_saved == 0);
    s.finish(plan);
    run_all(s);
    CHECK(s.pool->stats().positions_reusable == 0);
  }
}

TEST_CASE("a step that fails takes back what it has published") {
  Steps s = make_steps({});
  s.submit(18, 3);
  const StepPlan plan = s.plan();
  CHECK(plan.published.size() == 4);
  CHECK(s.scheduler.abort(plan).size() == 1);
  CHECK(s.pool->stats().positions_reusable == 0);
  submit_like_first(s, 18, 18);
  CHECK(s.step().num_found == 0);
  run_all(s);
}

TEST_CASE("steps in flight that fail take back what either has published") {
  Steps s = make_steps({.prefill_chunk_size = 8});
  s.submit(20, 3);
  const StepPlan first = s.plan();
  s.advance(first);
  submit_like_first(s, 20, 20);
  const StepPlan second = s.plan();  // shares with the first one, and with a step in flight
  CHECK(second.num_found == 16);
  CHECK(s.scheduler.abort(second).size() == 2);
  CHECK(s.scheduler.abort(first).empty());
  CHECK(s.pool->stats().positions_reusable == 0);
  CHECK(s.pool->stats().positions_leased == 0);
}

TEST_CASE("generated tokens are found once their values are known") {
  Steps s = make_steps({});
  s.submit(6, 20);
  s.step();
  s.step();
  StepPlan plan = s.plan();  // computes position 7, the last of the second block
  s.advance(plan);
  const auto probe = [&] {
    std::vector<TokenId> tokens = s.requests[0].prompt;
    tokens.resize(12, 1);
    return s.pool->num_findable({.scope = kShareAll}, tokens);
  };
  CHECK(probe() == 4);
  s.commit(plan);
  CHECK(probe() == 8);
  run_all(s);
}

TEST_CASE("what a preempted sequence finds again is not computed again") {
  Steps s = make_steps({.admission_reserve = 0.0}, 5);
  s.submit(8, 8);
  s.submit(7, 8);
  int num_preempted = 0;
  while (num_preempted == 0) num_preempted = s.step().num_preempted;
  CHECK(s.scheduler.waiting().contains({1}));
  const int num_lost = s.waiting(1).max_computed;
  while (!s.scheduler.running().contains({1})) s.step();
  const Sequence& again = s.running(1);
  CHECK(again.num_recomputed < num_lost);
  CHECK(again.num_found == 0);  // only what was never computed before counts
  run_all(s);
}

TEST_CASE("a group that was preempted shares again what it shared, and takes no more room") {
  for (const bool prefix_cache : {true, false}) {
    CAPTURE(prefix_cache);
    Steps s(std::make_unique<PagedPool>(9, 4),
            {.max_model_len = 36, .admission_reserve = 0.0, .prefix_cache = prefix_cache});
    s.submit(16, 9, 3);  // 4 shared blocks, up to 2 of each sample
    s.submit(5, 9);
    int num_preempted = 0;
    while (!s.scheduler.idle()) {
      num_preempted += s.step().num_preempted;
      int num_together = 0;
      std::set<int32_t> heads;
      for (const Sequence* const seq : sequences_of(s.scheduler.running())) {
        if (seq->request != &s.requests[0] || seq->num_computed < 16) continue;
        ++num_together;
        heads.insert(seq->lease.block_table[0]);
      }
      REQUIRE(heads.size() <= 1);
    }
    CHECK(num_preempted > 0);
  }
}

TEST_CASE("positions that several sequences hold count once") {
  Steps s = make_steps({});
  s.submit(18, 3);
  submit_like_first(s, 18, 18);
  s.step();
  CHECK(s.scheduler.cache_use().tokens_held == 18 + 2);
  CHECK(s.pool->stats().positions_saved == 16);
  run_all(s);
}
