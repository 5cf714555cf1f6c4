// Log probabilities and candidates of drawn tokens, against a plain softmax of the logits.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/double_math.h"
#include "tests/support/ops_support.h"

using namespace pagedinfer;

namespace {

// Rows of logits with settings that change them, from each of which some samples are drawn.
struct Rows {
  Rows(Random& random, int count, int vocabulary) : vocab(vocabulary) {
    logits = random.normals(static_cast<size_t>(count) * vocab, random.below(2) ? 4.0f : 0.3f);
    requests.resize(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      const std::span<float> x = std::span(logits).subspan(static_cast<size_t>(i) * vocab, vocab);
      if (random.below(3) == 0) {  // ties
        for (float& a : x) a = std::round(a);
      }
      for (const float special : {-INFINITY, INFINITY, NAN}) {
        for (int n = random.below(4); n > 1; --n) x[random.below(vocab)] = special;
      }
      if (random.below(8) == 0) std::ranges::fill(x, -INFINITY);
      if (random.below(8) == 0) x[random.below(vocab)] = -3e38f;

      Request& r = requests[static_cast<size_t>(i)];
      const auto some = [&](std::vector<TokenId>& ids, int most) {
        for (int n = random.below(most + 1); n > 0; --n) ids.push_back(random.below(vocab));
      };
      if (random.below(2)) r.params.temperature = 0.1f + 2 * random.unit();
      if (random.below(3) == 0) r.params.top_k = 1 + random.below(vocab);
      if (random.below(3) == 0) r.params.min_p = random.unit() / 4;
      if (random.below(3) == 0) r.params.repetition_penalty = 0.5f + random.unit();
      if (random.below(3) == 0) r.params.presence_penalty = random.normal();
      if (random.below(3) == 0) r.params.frequency_penalty = random.normal();
      if (random.below(3) == 0) r.params.logit_bias = random_biases(random, 3, vocab);
      some(r.prompt, 40), some(r.generated, 40);
      if (random.below(3) == 0) some(r.banned, 5);
      if (random.below(3) == 0) some(r.allowed, 3);
      constexpr int kNumbers[] = {-1, 0, 1, 2, 20, 255, 256};
      r.num_log_probs = kNumbers[random.below(7)];
      r.num_samples = random.between(1, 3);
      r.key = random.bits();
    }
  }

  std::vector<SampleRow> view() const {
    std::vector<SampleRow> rows;
    for (size_t i = 0; i < requests.size(); ++i) {
      const Request& r = requests[i];
      for (int sample = 0; sample < r.num_samples; ++sample) {
        rows.push_back({.params = &r.params,
                        .prompt = r.prompt,
                        .generated = r.generated,
                        .allowed = r.allowed,
                        .banned = r.banned,
                        .key = r.key,
                        .sample = static_cast<uint32_t>(sample),
                        .logits_row = static_cast<int>(i),
                        .num_log_probs = r.num_log_probs});
      }
    }
    return rows;
  }
  std::span<const float> of(const SampleRow& row) const {
    return std::span(logits).subspan(static_cast<size_t>(row.logits_row) * vocab, vocab);
  }

  struct Request {
    SamplingParams params = {};
    std::vector<TokenId> prompt = {}, generated = {}, allowed = {}, banned = {};
    int num_log_probs = -1, num_samples = 1;
    uint64_t key = 0;
  };
  int vocab;
  std::vector<float> logits;
  std::vector<Request> requests;
};

std::vector<DrawnToken> draw(Ops& ops, const Rows& rows) {
  std::vector<float> logits = rows.logits;
  const std::vector<SampleRow> view = rows.view();
  std::vector<DrawnToken> drawn(view.size());
  const auto count = static_cast<int64_t>(rows.requests.size());
  ops.steps().collect(ops.steps().sample(pagedinfer::view(logits, count, rows.vocab), view), drawn);
  return drawn;
}

// The definition, number by number.
std::optional<float> defined(std::span<const float> x, float logit) {
  const FlushDenormals guard;
  float largest = -INFINITY;
  for (const float a : x) largest = std::isfinite(a) ? std::max(largest, a) : largest;
  if (largest == -INFINITY || std::isnan(logit) || logit == INFINITY) return std::nullopt;
  std::vector<float> weights;
  for (const float a : x) {
    const float shifted = a - largest;
    float weight = 0;
    if (std::isfinite(a)) kPortableKernels.exp(&shifted, &weight, 1);
    weights.push_back(weight);
  }
  double sum = 0;
  for (size_t i = 0; i < weights.size(); i += 256) {
    const size_t count = std::min<size_t>(256, weights.size() - i);
    sum += static_cast<double>(interleaved_sum(std::span(weights).subspan(i, count)));
  }
  return static_cast<float>(static_cast<double>(logit) -
                            (static_cast<double>(largest) + log_double(sum)));
}

// As anyone would compute it.
long double textbook(std::span<const float> x, float logit) {
  long double sum = 0, largest = -HUGE_VALL;
  for (const float a : x) largest = std::isfinite(a) ? std::max<long double>(largest, a) : largest;
  for (const float a : x) sum += std::isfinite(a) ? std::exp(a - largest) : 0;
  return logit - largest - std::log(sum);
}

bool same(std::optional<float> a, std::optional<float> b) {
  return a.has_value() == b.has_value() && (!a || bits_of(*a) == bits_of(*b));
}

void check_against_definition(const Rows& rows, const std::vector<DrawnToken>& drawn) {
  const std::vector<SampleRow> view = rows.view();
  for (size_t i = 0; i < view.size(); ++i) {
    const SampleRow& row = view[i];
    INFO("row " << i << ", " << row.num_log_probs << " of " << rows.vocab);
    const std::span<const float> x = rows.of(row);
    if (row.num_log_probs < 0) {
      CHECK(!drawn[i].log_probability.has_value());
      CHECK(drawn[i].candidates.empty());
      continue;
    }
    TokenId token = drawn[i].token;
    const std::set<TokenId> allowed(row.allowed.begin(), row.allowed.end());
    if (token == kNoToken && allowed.size() == 1) token = *allowed.begin();
    const float logit = token == kNoToken ? NAN : x[token];
    REQUIRE(same(drawn[i].log_probability, defined(x, logit)));
    if (drawn[i].log_probability.has_value() && std::isfinite(logit)) {
      const auto exact = static_cast<double>(textbook(x, logit));
      CHECK(std::abs(*drawn[i].log_probability - exact) <= 2e-6 + 1e-7 * std::abs(exact));
    }

    std::vector<TokenId> ids;
    for (TokenId id = 0; id < rows.vocab; ++id) {
      if (std::isfinite(x[id])) ids.push_back(id);
    }
    std::ranges::stable_sort(ids, [&](TokenId a, TokenId b) { return x[a] > x[b]; });
    ids.resize(std::min<size_t>(ids.size(), static_cast<size_t>(row.num_log_probs)));
    REQUIRE(drawn[i].candidates.size() == ids.size());
    for (size_t k = 0; k < ids.size(); ++k) {
      CHECK(drawn[i].candidates[k].token == ids[k]);
      REQUIRE(same(drawn[i].candidates[k].log_probability, defined(x, x[ids[k]])));
    }
  }
}

}  // namespace

TEST_CASE("log probabilities are those of the logits before any setting changes them") {
  Random random{31};
  const auto ops = make_cpu_ops({.isa = available_isas().back()});
  int outside = 0, more_than_all = 0, without = 0;
  for (int i = 0; i < 400; ++i) {
    const int vocab = random.below(3) ? random.between(1, 300) : random.between(300, 1500);
    const Rows rows(random, random.between(1, 4), vocab);
    INFO("case " << i);
    const std::vector<DrawnToken> drawn = draw(*ops, rows);
    check_against_definition(rows, drawn);
    const std::vector<SampleRow> view = rows.view();
    for (size_t r = 0; r < view.size(); ++r) {
      const auto is_drawn = [&](const TokenCandidate& c) { return c.token == drawn[r].token; };
      const bool within = std::ranges::any_of(drawn[r].candidates, is_drawn);
      outside += !within && drawn[r].token != kNoToken && view[r].num_log_probs > 0;
      more_than_all += view[r].num_log_probs > vocab;
      without += view[r].num_log_probs >= 0 && !drawn[r].log_probability.has_value();
    }
  }
  CHECK(outside > 50);
  CHECK(more_than_all > 50);
  CHECK(without > 20);
}

TEST_CASE("log probabilities have the same bits on every instruction set and number of threads") {
  MESSAGE("instruction sets: " << isa_names());
  Random random{32};
  for (const int vocab : {255, 256, 257, 4001, 70001}) {
    const Rows rows(random, vocab > 10000 ? 3 : 40, vocab);
    const auto one = make_cpu_ops({.isa = available_isas().front()});
    const std::vector<DrawnToken> expected = draw(*one, rows);
    check_against_definition(rows, expected);
    for (const CpuIsa isa : available_isas()) {
      for (const int threads : {1, 2, 5}) {
        INFO(vocab << " tokens, " << name_of(isa) << ", " << threads << " threads");
        const auto ops = make_cpu_ops({.isa = isa, .num_threads = threads});
        CHECK(draw(*ops, rows) == expected);
      }
    }
  }
}

TEST_CASE("a token is scored by allowing no other") {
  const auto ops = make_cpu_ops({});
  const SamplingParams greedy;
  std::vector<float> logits = {1, -INFINITY, 3, NAN, INFINITY, 3};
  const std::vector<TokenId> ids = {0, 1, 2, 3, 4, 5};
  std::vector<SampleRow> rows;
  for (const TokenId& id : ids) {
    rows.push_back({.params = &greedy, .allowed = {&id, 1}, .num_log_probs = 1});
  }
  for (size_t i = 0; i < ids.size(); ++i) {  // one at a time: rows of one row of logits are alike
    std::vector<DrawnToken> drawn(1);
    ops->steps().collect(ops->steps().sample(view(logits, 1, 6), {&rows[i], 1}), drawn);
    CAPTURE(i);
    CHECK(drawn[0].token == (std::isfinite(logits[i]) ? ids[i] : kNoToken));
    CHECK(same(drawn[0].log_probability, defined(logits, logits[i])));
    REQUIRE(drawn[0].candidates.size() == 1);
    CHECK(drawn[0].candidates[0].token == 2);
  }
  const std::vector<float> all = logits;
  CHECK(defined(all, -INFINITY) == -INFINITY);
  CHECK(!defined(all, NAN).has_value());
}
