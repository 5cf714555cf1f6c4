// The lengths at which chunks, blocks, sequences and pools end: at each of them, and one token to
// either side, a request gets the bits of running alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "kv/contiguous_pool.h"
#include "kv/paged_pool.h"
#include "tests/support/rig.h"

using namespace pagedinfer;

namespace {

constexpr TokenId kNoStop = -1;

// A rig and, by request, what it answers alone.
class Edges {
 public:
  explicit Edges(const TinyModelOptions& shape = tiny_shapes()[0]) : files_(shape) {}

  // Answers of up to `max_tokens` tokens, cut off at `max_model_len` together with the prompt.
  void add(int num_prompt, int max_tokens) {
    const int64_t index = std::ssize(arrivals_);
    arrivals_.push_back({0, make_request(index, num_prompt, max_tokens, kTinyVocab)});
  }

  Outcome require_same(KvPool& pool, const SchedulerLimits& limits) {
    const auto never = [](const Rig::Tokens&) { return false; };
    std::map<uint64_t, Rig::Tokens> alone;
    rig_.start();
    for (const auto& [step, request] : arrivals_) {
      alone[request.random_key] = rig_.alone(request, limits.max_model_len, never);
    }
    const LogitRows expected = rig_.logit_rows();

    rig_.start();
    const Device device = [&](const StepPlan& plan, PlanSequences sequences, const Batch& batch) {
      return rig_.compute(plan, sequences, batch);
    };
    const Outcome outcome = drive(pool, limits, arrivals_, kNoStop, device, counters);
    REQUIRE(rig_.num_bad_rows() == 0);
    for (const auto& [id, tokens] : outcome.answers) {
      INFO("prompt of " << arrivals_[static_cast<size_t>(id.first)].request.prompt.size());
      REQUIRE(tokens == alone.at(id.first));
    }
    for (const auto& [place, hash] : rig_.logit_rows()) REQUIRE(hash == expected.at(place));
    return outcome;
  }

  void clear() { arrivals_.clear(); }
  const std::vector<Arrival>& arrivals() const { return arrivals_; }
  Counters counters;

 private:
  TinyModel files_;
  OpenedModel model_ = open_model(files_.dir());
  Rig rig_{model_, {.isa = available_isas().back(), .num_threads = 2, .compute = DType::kBF16}};
  std::vector<Arrival> arrivals_;
};

// k * unit and its neighbours, for a few k.
std::set<int> around_multiples(int unit) {
  std::set<int> lengths = {1};
  for (const int k : {1, 2, 3, 5}) {
    for (const int length : {k * unit - 1, k * unit, k * unit + 1}) lengths.insert(length);
  }
  lengths.erase(0);
  return lengths;
}

}  // namespace

TEST_CASE("a prompt may end anywhere in a chunk") {
  Edges edges;
  for (const int chunk : {1, 2, 3, 7, 16, 64}) {
    INFO("chunks of " << chunk);
    edges.clear();
    for (const int num_prompt : around_multiples(chunk)) edges.add(num_prompt, 3);
    const SchedulerLimits limits = {.prefill_chunk_size = chunk, .max_model_len = 512};
    PagedPool pool(256, 16);
    const Outcome outcome = edges.require_same(pool, limits);
    CHECK(outcome.answers.size() == edges.arrivals().size());
    ContiguousPool reservations(3 * 512, 512);
    edges.require_same(reservations, limits);
  }
  edges.counters.print_and_require({"resumed chunks", "mixed steps"});
}

TEST_CASE("prompts and answers may end anywhere in a block") {
  Edges edges;
  for (const int block_size : {1, 2, 3, 8, 16, 31}) {
    INFO("blocks of " << block_size);
    edges.clear();
    for (const int num_prompt : around_multiples(block_size)) {
      edges.add(num_prompt, 1);
      edges.add(num_prompt, 2);
      edges.add(num_prompt, block_size + 2);
    }
    const SchedulerLimits limits = {.max_model_len = 512, .admission_reserve = 0.0};
    PagedPool roomy(3000 / block_size, block_size), tight(9, block_size);
    WorkloadRandom random(block_size);
    scramble(roomy, random);
    for (KvPool* pool : {&roomy, &tight}) {
      const Outcome outcome = edges.require_same(*pool, limits);
      CHECK(outcome.answers.size() == edges.arrivals().size());
    }
  }
  edges.counters.print_and_require({"preemptions", "mixed steps"});
}

TEST_CASE("prompts and answers may end anywhere in a window") {
  constexpr int kLayers = 3, kWindow = 12;
  for (const TinyFamily& family : {tiny_gemma3(kWindow, kLayers), tiny_qwen2(kWindow, kLayers)}) {
    Edges edges({.layers = kLayers, .max_positions = 1024, .family = family});
    for (const int num_prompt : around_multiples(kWindow)) {
      edges.add(num_prompt, 1);
      edges.add(num_prompt, kWindow + 2);
    }
    for (const int block_size : {1, 5, kWindow - 1, kWindow, kWindow + 1}) {
      INFO("blocks of " << block_size);
      const SchedulerLimits limits = {
          .prefill_chunk_size = block_size + 3, .max_model_len = 512, .admission_reserve = 0.0};
      PagedPool roomy(2000 / block_size, block_size), tight(75 / block_size + 1, block_size);
      WorkloadRandom random(block_size);
      scramble(roomy, random);
      for (KvPool* pool : {&roomy, &tight}) {
        const Outcome outcome = edges.require_same(*pool, limits);
        CHECK(outcome.answers.size() == edges.arrivals().size());
      }
    }
    edges.counters.print_and_require({"preemptions", "resumed chunks", "mixed steps"});
  }
}

TEST_CASE("an answer is cut off where the model's length ends") {
  Edges edges;
  constexpr int kLength = 40;
  for (const int num_prompt : {1, 5, kLength - 2, kLength - 1}) {
    for (const int more : {-1, 0, 1, 100}) {
      edges.add(num_prompt, std::max(1, kLength - num_prompt + more));
    }
  }
  PagedPool blocks(60, 3);
  ContiguousPool reservations(2 * kLength, kLength);
  for (KvPool* pool : {static_cast<KvPool*>(&blocks), static_cast<KvPool*>(&reservations)}) {
    const Outcome outcome = edges.require_same(*pool, {.max_model_len = kLength});
    CHECK(outcome.answers.size() == edges.arrivals().size());
    for (const auto& [step, request] : edges.arrivals()) {
      const auto num_prompt = static_cast<int>(request.prompt.size());
      CHECK(std::ssize(outcome.answers.at({request.random_key, 0})) ==
            std::min(request.sampling.max_tokens, kLength - num_prompt));
    }
  }
}

TEST_CASE("a request that fills the whole pool runs, one token more is refused") {
  Edges edges;
  for (const int block_size : {1, 4, 13}) {
    for (const int num_prompt : {1, 7, 51, 52, 53}) {
      edges.clear();
      const int most = 52 + 1 - num_prompt;  // the last token takes no place in the cache
      edges.add(3, 9);
      if (most > 0) edges.add(num_prompt, most);
      edges.add(num_prompt, std::max(0, most) + 1);
      edges.add(9, 3);
      PagedPool pool(52 / block_size, block_size);
      const Outcome outcome = edges.require_same(pool, {.max_model_len = 512});
      CHECK(outcome.refused == std::set<uint64_t>{most > 0 ? 2U : 1U});
      CHECK(outcome.answers.size() + 1 == edges.arrivals().size());
    }
  }
}
