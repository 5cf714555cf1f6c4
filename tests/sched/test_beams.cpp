// The beams of a search as sequences: what they share, and that they stay together.
#include <doctest/doctest.h>

#include "kv/contiguous_pool.h"
#include "kv/paged_pool.h"
#include "tests/support/sched_steps.h"

using namespace pagedinfer;

namespace {

// A scheduler whose beams, each time, are offered tokens that no other is offered.
struct BeamSteps : Steps {
  using Steps::Steps;

  Age submit_beams(int num_prompt, int max_tokens, int width) {
    requests.push_back(make_request(std::ssize(requests), num_prompt, max_tokens));
    requests.back().sampling.beams = {.width = width};
    return scheduler.submit(requests.back());
  }

  // All beams go on, each by its own token.
  Scheduler::Committed commit_beams(const StepPlan& plan) {
    std::vector<DrawnToken> drawn(plan.draws.size(), {.token = 1});
    for (size_t row = 0; row < drawn.size(); ++row) {
      // The first tokens are nearly equally likely, of the later ones one is by far the likeliest.
      const bool is_first = scheduler.find(plan.draws[row])->num_generated() == 1;
      for (int i = 0; i < 16; ++i) {
        const float worse = is_first ? 0.1f : 100.0f;
        drawn[row].candidates.push_back({10 + i, -1.0f - worse * static_cast<float>(i)});
      }
    }
    Scheduler::Committed committed = scheduler.commit(
        plan, drawn,
        [](const Sequence& seq, const DrawnToken&) -> std::optional<FinishReason> {
          if (!seq.is_beam() && seq.num_known() == seq.max_tokens) return FinishReason::kLength;
          return std::nullopt;
        },
        [](const Sequence&) { return [](const Beam&, TokenId) { return TokenRole::kGoesOn; }; });
    check_books(*pool, scheduler);
    return committed;
  }

  StepPlan beam_step() {
    StepPlan planned = plan();
    advance(planned);
    for (Sequence& seq : commit_beams(planned).finished) finished.push_back(std::move(seq));
    return planned;
  }

  std::vector<Sequence> finished = {};  // by beam_step()
};

}  // namespace

TEST_CASE("beams hold the blocks of their prompt once, however many they are") {
  for (const int width : {2, 4, 8, 16}) {
    BeamSteps s(std::make_unique<PagedPool>(64, 16), {.max_model_len = 512});
    s.submit_beams(128, 20, width);
    s.beam_step();
    CHECK(s.pool->stats().positions_leased == 128);
    s.beam_step();
    CHECK(s.scheduler.num_running() == width);
    CHECK(s.pool->stats().positions_leased == 128 + width * 16);
  }
}

TEST_CASE("a step that decodes beams is committed before the next one is planned") {
  BeamSteps s(std::make_unique<PagedPool>(64, 4), {.prefill_chunk_size = 4, .max_model_len = 64});
  s.submit_beams(6, 5, 2);
  const StepPlan first = s.plan();
  CHECK(first.may_overlap);  // half of the prompt: nothing is drawn
  s.advance(first);
  s.commit_beams(first);
  const StepPlan second = s.plan();
  CHECK_FALSE(second.may_overlap);
  CHECK(second.draws.size() == 1);
  s.advance(second);
  s.commit_beams(second);
  CHECK(s.scheduler.num_running() == 2);
  CHECK_FALSE(s.plan().may_overlap);
}

TEST_CASE("beams are preempted together and come back to what they shared") {
  // The search needs 2 + 4 * 3 blocks at its end, and the other request takes some of them.
  BeamSteps s(std::make_unique<PagedPool>(14, 4), {.max_model_len = 64, .admission_reserve = 0.0});
  s.submit(4, 16);
  s.submit_beams(10, 10, 4);
  int num_preempted = 0, num_readmitted = 0, num_prefilled = 0;
  for (int i = 0; i < 60 && !s.scheduler.idle(); ++i) {
    const int num_before = s.scheduler.num_waiting();
    const StepPlan plan = s.beam_step();
    num_preempted += plan.num_preempted;
    for (int chunk = plan.num_decodes; chunk < std::ssize(plan.chunks); ++chunk) {
      if (plan.chunks[chunk].is_beam) num_prefilled += plan.chunks[chunk].count;
    }
    if (num_before == 4 && plan.num_admitted > 0) {
      CHECK(plan.num_admitted == 4);
      ++num_readmitted;
      CHECK(s.pool->stats().positions_saved >= 3 * 8);  // two blocks, thrice
    }
  }
  CHECK(num_preempted == 4);
  CHECK(num_readmitted == 1);
  for (const Sequence& seq : s.finished) {
    if (seq.is_beam()) CHECK(seq.num_recomputed == num_prefilled - 10);  // by all four
  }
  CHECK(s.finished.size() == 2);
  CHECK(s.scheduler.idle());
  CHECK(s.pool->stats().positions_leased == 0);
}

TEST_CASE("what each beam has computed can be found") {
  BeamSteps s(std::make_unique<PagedPool>(64, 4), {.max_model_len = 64, .prefix_cache = true});
  const Age search = s.submit_beams(6, 12, 3);
  for (int i = 0; i < 4; ++i) s.beam_step();
  std::vector<std::vector<TokenId>> prompts;
  for (const Sequence& beam : s.scheduler.running().at(search).members) {
    REQUIRE(beam.num_computed >= 8);
    prompts.emplace_back(beam.tokens.begin(), beam.tokens.begin() + 9);
  }
  CHECK(prompts[0] != prompts[1]);
  for (const std::vector<TokenId>& prompt : prompts) {
    s.requests.push_back(make_request(std::ssize(s.requests), 9, 2));
    s.requests.back().prompt = prompt;
    s.scheduler.submit(s.requests.back());
  }
  const StepPlan plan = s.plan();
  REQUIRE(plan.num_prefills() == 3);
  for (int i = 0; i < 3; ++i) CHECK(plan.chunks[plan.num_decodes + i].start == 8);
}

TEST_CASE("a search that the pool can never hold is refused, one that just fits is not") {
  PagedPool pool(14, 4);
  const Scheduler scheduler(pool, {.max_model_len = 64});
  // Full blocks of the prompt, and four times the rest of 19 computed tokens.
  CHECK(scheduler.fits(10, 10, 4));
  CHECK(scheduler.fits(10, 12, 4).error().code == "exceeds_cache");
  CHECK(scheduler.fits(10, 10, 5).error().code == "exceeds_cache");
  CHECK(scheduler.fits(7, 12, 4).error().code == "exceeds_cache");
  ContiguousPool reservations(3 * 64, 64);
  const Scheduler copies(reservations, {.max_model_len = 64});
  CHECK(copies.fits(10, 10, 3));
  CHECK(copies.fits(10, 10, 4).error().message ==
        "10 prompt tokens and 4 beams of up to 10 completion tokens need 256 cache positions, and "
        "the whole cache has 192");
}

TEST_CASE("a search of more beams than may run runs alone") {
  BeamSteps s(std::make_unique<PagedPool>(64, 4),
              {.max_step_tokens = 8, .max_running = 2, .max_model_len = 64});
  s.submit_beams(5, 4, 6);
  s.submit(5, 3);
  for (int i = 0; i < 4; ++i) s.beam_step();
  REQUIRE(s.finished.size() == 1);
  CHECK(s.finished[0].is_beam());
  CHECK(s.scheduler.waiting().size() + s.scheduler.running().size() == 1);
  while (!s.scheduler.idle()) s.beam_step();
}

TEST_CASE("an error of one beam, or a step that fails, ends the whole search") {
  for (const bool fails : {false, true}) {
    BeamSteps s(std::make_unique<PagedPool>(64, 4), {.max_model_len = 64});
    s.submit_beams(5, 9, 3);
    s.beam_step();
    const StepPlan plan = s.plan();
    std::vector<Sequence> ended;
    if (fails) {
      ended = s.scheduler.abort(plan);
    } else {
      s.advance(plan);
      const std::vector<DrawnToken> drawn(3);
      ended =
          s.scheduler
              .commit(plan, drawn,
                      [](const Sequence& seq, const DrawnToken&) {
                        return seq.sample == 1 ? std::optional(FinishReason::kError) : std::nullopt;
                      })
              .finished;
      REQUIRE(ended.size() == 1);
      CHECK(ended[0].finished == FinishReason::kError);
    }
    REQUIRE(ended.size() == 1);
    CHECK(ended[0].found_beams.empty());
    CHECK(s.scheduler.idle());
    CHECK(s.pool->stats().positions_leased == 0);
  }
}
