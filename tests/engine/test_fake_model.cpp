// A model small enough to check by hand: the cache holds token ids, "attention" hashes everything
// visible, the next token is the hash. If any position is wrong, shared, or lost in a preemption,
// the output differs from the one-at-a-time run.
#include <doctest/doctest.h>

#include <algorithm>

#include "kv/contiguous_pool.h"
#include "kv/paged_pool.h"
#include "tests/support/harness.h"
#include "tests/support/workload.h"

using namespace pagedinfer;

namespace {

constexpr TokenId kVocab = 97, kStop = 13, kPoison = -7;

uint64_t mix(uint64_t hash, int32_t token) {
  hash ^= static_cast<uint64_t>(token) + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdull;
}

TokenId draw(uint64_t hash, int sample) {
  return static_cast<TokenId>((mix(hash, sample) >> 20) % kVocab);
}

uint64_t hash_of(std::span<const TokenId> tokens) {
  uint64_t hash = 7;
  for (const TokenId token : tokens) hash = mix(hash, token);
  return hash;
}

// The likeliest tokens, many of them equally likely.
std::vector<TokenCandidate> candidates(uint64_t hash, const BeamSettings& settings) {
  std::vector<TokenCandidate> all;
  for (TokenId token = 0; token < kVocab; ++token) {
    all.push_back({token, -static_cast<float>((mix(hash, token) >> 20) % 64) / 8});
  }
  std::ranges::stable_sort(all, std::greater<>(), &TokenCandidate::log_probability);
  all.resize(static_cast<size_t>(BeamSearch::num_candidates(settings.width, 1)));
  return all;
}

std::vector<FinishedBeam> search_alone(const Request& request, int max_model_len) {
  const auto num_prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t most = bound_on_tokens(num_prompt, request.sampling.max_tokens, max_model_len);
  BeamSearch search(request.sampling.beams, static_cast<int>(most - num_prompt));
  while (!search.is_done()) {
    std::vector<BeamSearch::Candidates> offered;
    for (const Beam& beam : search.running()) {
      std::vector<TokenId> known = request.prompt;
      known.insert(known.end(), beam.tokens.begin(), beam.tokens.end());
      offered.push_back(candidates(hash_of(known), request.sampling.beams));
    }
    search.step(offered, [](const Beam&, TokenId token) {
      return token == kStop ? TokenRole::kEnds : TokenRole::kGoesOn;
    });
  }
  return search.finished();
}

std::vector<TokenId> alone(const Request& request, int sample, int max_model_len) {
  std::vector<TokenId> known = request.prompt, answer;
  const int64_t num_prompt = static_cast<int64_t>(known.size());
  const int64_t most = bound_on_tokens(num_prompt, request.sampling.max_tokens, max_model_len);
  while (static_cast<int64_t>(known.size()) < most) {
    answer.push_back(draw(hash_of(known), sample));
    known.push_back(answer.back());
    if (answer.back() == kStop) break;
  }
  return answer;
}

class FakeDevice {
 public:
  explicit FakeDevice(int64_t num_positions) : cache_(num_positions, kPoison) {}

  void copy(const Batch& batch) {
    for (const KvCopy& copy : batch.copies) {
      for (int i = 0; i < copy.count; ++i) {
        cache_.at(copy.destination + i) = cache_.at(copy.source + i);
      }
    }
  }

  // The copies are done.
  std::vector<DrawnToken> compute(const StepPlan& plan, PlanSequences sequences,
                                  const Batch& batch) {
    for (int32_t slot : unwritten_slots(plan, sequences, batch.block_size)) {
      cache_.at(slot) = kPoison;
    }
    for (int i = 0; i < batch.num_tokens(); ++i) {
      if (batch.slot_mapping[i] >= 0) cache_.at(batch.slot_mapping[i]) = batch.tokens[i];
    }
    for (int s = 0; s < batch.num_seqs(); ++s) {
      REQUIRE(batch.positions[batch.query_starts[s + 1] - 1] == batch.context_lens[s] - 1);
      hash_of(batch, s, batch.context_lens[s]);
    }
    std::vector<DrawnToken> drawn;
    for (const Draw& draw_ : plan.draws) {
      const Sequence& seq = *sequences[draw_.chunk];
      const uint64_t hash = hash_of(batch, draw_.chunk, draw_.position);
      drawn.push_back({.token = draw(hash, draw_.sample)});
      if (seq.is_beam()) {
        drawn.back().candidates = candidates(hash, seq.request->sampling.beams);
      }
    }
    return drawn;
  }

 private:
  // Of the first tokens of a sequence in the batch.
  uint64_t hash_of(const Batch& batch, int s, int num_tokens) const {
    uint64_t hash = 7;
    bool all_written = true;
    for (int p = 0; p < num_tokens; ++p) {
      const int first = batch.block_table[s * batch.max_blocks + p / batch.block_size];
      const TokenId held = cache_.at(first + p % batch.block_size);
      all_written = all_written && held != kPoison;
      hash = mix(hash, held);
    }
    REQUIRE(all_written);
    return hash;
  }

  std::vector<TokenId> cache_;
};

void require_answers(const Outcome& outcome, const std::vector<Arrival>& arrivals,
                     int max_model_len) {
  for (const auto& [step, request] : arrivals) {
    const auto failed = [&](const SampleId& id) {
      return outcome.refused.contains(id.first) || outcome.failed.contains(id);
    };
    if (request.sampling.beams.width > 1 && !failed({request.random_key, 0})) {
      const std::vector<FinishedBeam> found = search_alone(request, max_model_len);
      REQUIRE(static_cast<int>(found.size()) == request.sampling.beams.width);
      for (int i = 0; i < static_cast<int>(found.size()); ++i) {
        REQUIRE(outcome.answers.at({request.random_key, i}) ==
                found[static_cast<size_t>(i)].tokens);
      }
      continue;
    }
    for (int sample = 0; sample < request.num_samples; ++sample) {
      const SampleId id = {request.random_key, sample};
      if (failed(id)) {
        REQUIRE(!outcome.answers.contains(id));
      } else {
        REQUIRE(outcome.answers.at(id) == alone(request, sample, max_model_len));
      }
    }
  }
}

// A step in `fails_in` fails, one in `repeats_in` is tried twice; 0 = never.
Outcome run(KvPool& pool, const Workload& work, Counters& counters, WorkloadRandom& random,
            Overlap overlap, int fails_in = 0, int repeats_in = 0, const Drafter& drafter = {}) {
  FakeDevice fake(pool.stats().positions_total);
  std::vector<DrawnToken> drawn;  // in the step before
  const Device device = [&](const StepPlan& plan, PlanSequences sequences, const Batch& batch) {
    const bool fails = fails_in > 0 && random.one_in(fails_in);
    if (fails && random.one_in(2)) throw StepFailed();
    Batch known = batch;
    for (TokenId& token : known.tokens) token = token < 0 ? drawn.at(-1 - token).token : token;
    fake.copy(batch);
    if (repeats_in > 0 && random.one_in(repeats_in)) {
      if (random.one_in(2)) {
        fake.copy(batch);
      } else {
        fake.compute(plan, sequences, known);
      }
    }
    std::vector<DrawnToken> tokens = fake.compute(plan, sequences, known);
    if (fails) throw StepFailed();
    return drawn = std::move(tokens);
  };
  const Outcome outcome =
      drive(pool, work.limits, work.arrivals, kStop, device, counters, overlap, drafter);
  REQUIRE((fails_in > 0 || outcome.failed.empty()));
  require_answers(outcome, work.arrivals, work.limits.max_model_len);
  return outcome;
}

Overlap either(WorkloadRandom& random) { return random.one_in(2) ? Overlap::kYes : Overlap::kNo; }

}  // namespace

TEST_CASE("requests get the same tokens in any batch as alone") {
  Counters paged, contiguous;
  for (int trial = 0; trial < scaled(800); ++trial) {
    INFO("trial " << trial);
    WorkloadRandom random(trial);
    const Workload work = random_workload(random, kVocab);
    PagedPool blocks(work.num_blocks, work.block_size);
    scramble(blocks, random);
    run(blocks, work, paged, random, either(random));
    const int max_model_len = work.limits.max_model_len;
    ContiguousPool reservations(max_model_len * work.num_reservations + random.pick(0, 1),
                                max_model_len);
    scramble(reservations, random);
    run(reservations, work, contiguous, random, either(random));
  }
  std::printf("fake model, paged: each run equal to one at a time\n");
  paged.print_and_require({"runs", "steps", "tokens", "refused", "preemptions", "readmissions",
                           "resumed chunks", "same-step admissions", "mixed steps",
                           "partly filled blocks", "overlapping steps", "surplus rows",
                           "blocks published", "tokens found", "full hits", "late hits",
                           "evictions", "shared steps"});
  std::printf("fake model, contiguous\n");
  contiguous.print_and_require({"runs", "steps", "tokens", "resumed chunks", "same-step admissions",
                                "mixed steps", "partly filled blocks", "overlapping steps",
                                "surplus rows"});
  CHECK(contiguous.of["preemptions"] == 0);
  CHECK(contiguous.of["refused"] == 0);  // a reservation holds any request of the intake
}

TEST_CASE("a sequence preempted with a token in flight receives it and may end with it") {
  Counters counters;
  for (int trial = 0; trial < 60; ++trial) {
    INFO("trial " << trial);
    WorkloadRandom random(20000 + trial);
    Workload work;
    for (int i = 0; i < 40; ++i) {
      work.arrivals.push_back({i / 4, make_request(i, random.pick(1, 9), random.pick(9, 40))});
    }
    work.limits = {.prefill_chunk_size = random.pick(3, 20),
                   .max_step_tokens = 32,
                   .max_running = 8,
                   .max_model_len = 64,
                   .admission_reserve = 0.0};
    const int block_size = random.pick(1, 4);
    PagedPool pool(64 / block_size + random.pick(0, 9), block_size);
    run(pool, work, counters, random, Overlap::kYes);
  }
  std::printf("fake model, tight\n");
  counters.print_and_require(
      {"runs", "preemptions", "overlapping steps", "surplus rows", "ended while waiting"});
}

TEST_CASE("steps that fail or are tried twice change nothing for the others") {
  Counters counters;
  for (int trial = 0; trial < scaled(300); ++trial) {
    INFO("trial " << trial);
    WorkloadRandom random(10000 + trial);
    const Workload work = random_workload(random, kVocab);
    PagedPool pool(work.num_blocks, work.block_size);
    run(pool, work, counters, random, either(random), random.pick(5, 30), 3);
  }
  std::printf("fake model, failing steps\n");
  counters.print_and_require({"runs", "failed", "preemptions", "same-step admissions",
                              "overlapping steps", "failures on top"});
}

TEST_CASE("samples of a prompt get the tokens that each gets alone") {
  Counters paged, contiguous;
  for (int trial = 0; trial < scaled(600); ++trial) {
    INFO("trial " << trial);
    WorkloadRandom random(30000 + trial);
    Workload work = random_workload(random, kVocab);
    for (Arrival& arrival : work.arrivals) {
      if (random.one_in(2)) arrival.request.num_samples = random.pick(2, 6);
    }
    const int fails_in = random.one_in(3) ? random.pick(10, 40) : 0;
    PagedPool blocks(work.num_blocks, work.block_size);
    scramble(blocks, random);
    run(blocks, work, paged, random, either(random), fails_in, 3);
    const int max_model_len = work.limits.max_model_len;
    ContiguousPool reservations(max_model_len * work.num_reservations, max_model_len);
    run(reservations, work, contiguous, random, either(random), fails_in, 3);
  }
  std::printf("fake model, samples, paged\n");
  const auto common = {"runs",         "forks",          "copies",         "late samples",
                       "surplus rows", "resumed chunks", "failures on top"};
  paged.print_and_require(common);
  paged.print_and_require({"preemptions", "readmissions", "ended while waiting"});
  std::printf("fake model, samples, contiguous\n");
  contiguous.print_and_require(common);
}

TEST_CASE("the tokens of a prompt are scored once each, whatever runs beside") {
  Counters counters;
  for (int trial = 0; trial < scaled(300); ++trial) {
    INFO("trial " << trial);
    WorkloadRandom random(50000 + trial);
    Workload work = random_workload(random, kVocab);
    for (auto& [step, request] : work.arrivals) {
      if (random.one_in(3) || request.prompt.size() < 2) continue;
      request.num_prompt_log_probs = 0;
      if (random.one_in(2)) request.sampling.max_tokens = 0;
      if (random.one_in(4)) request.num_samples = random.pick(1, 3);
      if (request.sampling.max_tokens == 0) request.num_samples = 1;
    }
    work.limits.max_running = std::max(work.limits.max_running, 3);
    work.limits.max_step_tokens += 3;
    PagedPool pool(work.num_blocks, work.block_size);
    const Outcome outcome = run(pool, work, counters, random, either(random));
    size_t num_scores = 0;
    for (const auto& [step, request] : work.arrivals) {
      const bool is_refused = outcome.refused.contains(request.random_key);
      if (request.num_prompt_log_probs < 0 || is_refused) continue;
      uint64_t hash = 7;
      for (int p = 1; p < std::ssize(request.prompt); ++p) {
        hash = mix(hash, request.prompt[p - 1]);
        REQUIRE(outcome.scores.at({request.random_key, p}) == draw(hash, 0));
        ++num_scores;
      }
    }
    REQUIRE(outcome.scores.size() == num_scores);
  }
  std::printf("fake model, scored prompts\n");
  counters.print_and_require(
      {"runs", "scores", "preemptions", "overlapping steps", "resumed chunks", "tokens found"});
}

TEST_CASE("a beam search finds in any company what it finds alone") {
  Counters paged, contiguous;
  for (int trial = 0; trial < scaled(300); ++trial) {
    INFO("trial " << trial);
    WorkloadRandom random(60000 + trial);
    Workload work = random_workload(random, kVocab);
    for (Arrival& arrival : work.arrivals) {
      SamplingParams& params = arrival.request.sampling;
      if (random.one_in(4)) arrival.request.num_samples = random.pick(2, 4);
      if (random.one_in(2)) continue;
      arrival.request.num_samples = 1;
      params.beams = random_beams(random, 6);
    }
    const int fails_in = random.one_in(3) ? random.pick(10, 40) : 0;
    if (random.one_in(2)) work.num_blocks = tight_blocks(work);
    PagedPool blocks(work.num_blocks, work.block_size);
    scramble(blocks, random);
    run(blocks, work, paged, random, either(random), fails_in, 3);
    const int max_model_len = work.limits.max_model_len;
    ContiguousPool reservations(max_model_len * random.pick(1, 9), max_model_len);
    run(reservations, work, contiguous, random, either(random), fails_in, 3);
  }
  std::printf("fake model, beams, paged\n");
  const auto common = {"runs",        "searches",        "preempted searches",
                       "copies",      "refused",         "resumed chunks",
                       "mixed steps", "failures on top", "readmissions"};
  paged.print_and_require(common);
  paged.print_and_require({"preemptions", "blocks published", "tokens found", "evictions"});
  std::printf("fake model, beams, contiguous\n");
  contiguous.print_and_require(common);
}

TEST_CASE("guessed tokens change no token, right or wrong") {
  Counters counters;
  for (int trial = 0; trial < scaled(300); ++trial) {
    INFO("trial " << trial);
    WorkloadRandom random(40000 + trial);
    Workload work = random_workload(random, kVocab);
    work.limits.max_step_tokens += random.pick(0, 30);
    std::map<SampleId, std::vector<TokenId>> answers;
    for (Arrival& arrival : work.arrivals) {
      Request& request = arrival.request;
      if (random.one_in(4)) request.num_samples = random.pick(2, 4);
      for (int sample = 0; sample < request.num_samples; ++sample) {
        answers[{request.random_key, sample}] = alone(request, sample, work.limits.max_model_len);
      }
    }
    const Drafter drafter = [&](const Sequence& seq) {
      const std::vector<TokenId>& answer = answers.at({seq.request->random_key, seq.sample});
      const auto from = std::min(answer.size(), static_cast<size_t>(seq.num_generated()));
      std::vector<TokenId> guess(answer.begin() + static_cast<int64_t>(from), answer.end());
      guess.resize(std::min(guess.size(), static_cast<size_t>(random.pick(0, 5))));
      for (TokenId& token : guess) token = random.one_in(4) ? random.pick(0, kVocab - 1) : token;
      return guess;
    };
    const int fails_in = random.one_in(3) ? random.pick(10, 40) : 0;
    PagedPool pool(work.num_blocks, work.block_size);
    run(pool, work, counters, random, either(random), fails_in, 3, drafter);
  }
  std::printf("fake model, guessed tokens\n");
  counters.print_and_require({"runs", "steps", "tokens", "verified drafts", "surplus rows",
                              "preemptions", "overlapping steps", "forks"});
}

TEST_CASE("paging takes fewer steps than reservations, and those than static batches") {
  WorkloadRandom random(1);
  Workload work;
  for (int i = 0; i < 200; ++i) {
    work.arrivals.push_back({0, make_request(i, random.pick(8, 95), random.pick(16, 255))});
  }
  work.limits = {.max_step_tokens = 256, .max_running = 200, .max_model_len = 512};
  Counters paged, contiguous, gathered;
  PagedPool blocks(512, 16);
  run(blocks, work, paged, random, Overlap::kNo);
  ContiguousPool reservations(8192, 512);
  run(reservations, work, contiguous, random, Overlap::kNo);
  work.limits.batching = Batching::kStatic;
  run(reservations, work, gathered, random, Overlap::kNo);
  std::printf("steps for 200 requests in 8192 positions: paged %ld, contiguous %ld, static %ld\n",
              paged.of["steps"], contiguous.of["steps"], gathered.of["steps"]);
  CHECK(paged.of["steps"] < contiguous.of["steps"]);
  CHECK(contiguous.of["steps"] < gathered.of["steps"]);
}
