// Sampling against a plain implementation that sorts everything, and the random numbers behind it.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>

#include "core/philox.h"
#include "core/random_key.h"
#include "ops/cpu/sampler.h"
#include "tests/support/ops_support.h"

using namespace pagedinfer;

namespace {

struct Case {
  std::vector<float> logits;
  SamplingParams params;
  std::vector<TokenId> prompt, generated, allowed, banned;
  std::vector<uint32_t> mask;
  uint64_t key = 0;
  uint32_t sample = 0, position = 0;

  SampleRow row() const {
    return {.params = &params,
            .prompt = prompt,
            .generated = generated,
            .allowed = allowed,
            .banned = banned,
            .mask = mask,
            .key = key,
            .sample = sample,
            .position = position};
  }
};

TokenId draw(const Kernels& kernels, const Case& c) {
  const FlushDenormals guard;
  return Sampler(kernels).draw(c.logits, c.row());
}

float weight(float logit, float largest, float temperature) {
  if (!std::isfinite(logit)) return 0;
  const float x = (logit - largest) / temperature;
  float y;
  kPortableKernels.exp(&x, &y, 1);
  return y;
}

// The definition, step by step over the whole vocabulary.
TokenId draw_plainly(const Case& c) {
  const FlushDenormals guard;
  const SamplingParams& params = c.params;
  const int n = static_cast<int>(c.logits.size());
  std::vector<float> x = c.logits;
  for (const TokenBias& b : params.logit_bias) x[b.token] += b.bias;
  for (TokenId id = 0; id < n && !c.allowed.empty(); ++id) {
    if (std::ranges::count(c.allowed, id) == 0) x[id] = -INFINITY;
  }
  for (const TokenId id : c.banned) x[id] = -INFINITY;
  for (TokenId id = 0; id < n && !c.mask.empty(); ++id) {
    if ((c.mask[id / 32] >> (id % 32) & 1) == 0) x[id] = -INFINITY;
  }
  std::set<TokenId> known(c.prompt.begin(), c.prompt.end());
  known.insert(c.generated.begin(), c.generated.end());
  for (const TokenId id : known) {
    const float r = params.repetition_penalty;
    x[id] = x[id] > 0 ? x[id] / r : x[id] * r;
  }
  for (const TokenId id : std::set<TokenId>(c.generated.begin(), c.generated.end())) {
    const auto times = std::count(c.generated.begin(), c.generated.end(), id);
    x[id] = x[id] - params.frequency_penalty * static_cast<float>(times);
    x[id] = x[id] - params.presence_penalty;
  }

  std::vector<TokenId> ids;
  for (int id = 0; id < n; ++id) {
    if (std::isfinite(x[id])) ids.push_back(id);
  }
  if (ids.empty()) return -1;
  std::vector<TokenId> sorted = ids;
  std::stable_sort(sorted.begin(), sorted.end(), [&](int a, int b) { return x[a] > x[b]; });
  if (params.temperature == 0) return sorted[0];

  const float largest = x[sorted[0]];
  const auto weights_of = [&](const std::vector<TokenId>& candidates) {
    std::vector<float> w;
    for (const TokenId id : candidates) w.push_back(weight(x[id], largest, params.temperature));
    return w;
  };
  const auto sum = [](const std::vector<float>& w) {
    double total = 0;
    for (size_t i = 0; i < w.size(); i += 256) {
      total += interleaved_sum(std::span(w).subspan(i, std::min<size_t>(256, w.size() - i)));
    }
    return total;
  };
  std::vector<TokenId> everything(n);
  for (int id = 0; id < n; ++id) everything[id] = id;
  std::vector<TokenId> candidates = everything;
  if (params.top_k > 0 && params.top_k < n) {
    candidates = sorted;
    candidates.resize(std::min<size_t>(params.top_k, sorted.size()));
  }
  if (params.top_p < 1) {
    const double target = static_cast<double>(params.top_p) * sum(weights_of(candidates));
    if (candidates == everything) candidates = sorted;
    const std::vector<float> w = weights_of(candidates);
    double running = 0;
    size_t kept = 0;
    while (kept < w.size()) {
      running += w[kept++];
      if (running >= target) break;
    }
    candidates.resize(kept);
  }
  if (params.min_p > 0) {
    if (candidates == everything) candidates = sorted;
    std::erase_if(candidates, [&](TokenId id) {
      return weight(x[id], largest, params.temperature) < params.min_p;
    });
  }
  const std::vector<float> w = weights_of(candidates);
  const double target = static_cast<double>(uniform(c.key, c.sample, c.position, 0)) * sum(w);
  double running = 0;
  for (size_t first = 0; first < w.size(); first += 256) {
    const auto block = std::span(w).subspan(first, std::min<size_t>(256, w.size() - first));
    const double block_sum = interleaved_sum(block);
    if (running + block_sum <= target) {
      running += block_sum;
      continue;
    }
    TokenId last_possible = -1;
    for (size_t i = first; i < first + block.size(); ++i) {
      if (w[i] > 0) last_possible = candidates[i];
      running += w[i];
      if (running > target) return candidates[i];
    }
    return last_possible;
  }
  return -2;
}

std::vector<TokenId> random_tokens(Random& random, int vocab, int most) {
  std::vector<TokenId> tokens(random.below(most + 1));
  for (TokenId& t : tokens) t = random.below(vocab);
  return tokens;
}

Case random_case(Random& random) {
  const int vocab = random.below(3) ? random.between(1, 700) : random.between(1, 5000);
  Case c;
  c.logits = random.normals(vocab, random.below(2) ? 3.0f : 0.3f);
  if (random.below(3) == 0) {  // ties
    for (float& x : c.logits) x = std::round(x);
  }
  for (const float special : {-INFINITY, INFINITY, NAN}) {
    if (random.below(4) == 0) c.logits[random.below(vocab)] = special;
  }
  const auto maybe = [&](float often, float value, float otherwise) {
    return random.unit() < often ? value : otherwise;
  };
  c.params.temperature = maybe(0.85f, 0.05f + 2 * random.unit(), 0);
  c.params.top_k = static_cast<int>(maybe(0.3f, static_cast<float>(random.between(1, vocab)), 0));
  c.params.top_p = maybe(0.4f, random.unit(), 1);
  c.params.min_p = maybe(0.3f, random.unit() * random.unit(), 0);
  c.params.repetition_penalty = maybe(0.3f, 0.5f + random.unit(), 1);
  c.params.presence_penalty = maybe(0.3f, random.normal(), 0);
  c.params.frequency_penalty = maybe(0.3f, random.normal(), 0);
  for (int i = random.below(3); i > 0; --i) {
    c.params.logit_bias.push_back({random.below(vocab), 5 * random.normal()});
  }
  c.prompt = random_tokens(random, vocab, 50);
  c.generated = random_tokens(random, vocab, 30);
  if (random.below(3) == 0) c.banned = random_tokens(random, vocab, 5);
  if (random.below(4) == 0) c.allowed = random_tokens(random, vocab, 40);
  if (random.below(4) == 0) {
    for (int i = 0; i < (vocab + 31) / 32; ++i) {
      c.mask.push_back(
          static_cast<uint32_t>(random.below(2) ? random.bits() : 0 - random.bits() % 2));
    }
  }
  c.key = random.bits();
  c.sample = random.below(3);
  c.position = random.below(5000);
  return c;
}

}  // namespace

TEST_CASE("Philox gives the published known answers") {
  using Counter = std::array<uint32_t, 4>;
  constexpr uint32_t kOnes = 0xffffffff;
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) ==
        Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a random key depends on seed, origin and every token, and never changes") {
  const std::vector<TokenId> prompt = {1, 5, 9}, other = {1, 5, 8}, longer = {1, 5, 9, 0};
  const std::set<uint64_t> keys = {random_key(0, "\"a\"", prompt), random_key(1, "\"a\"", prompt),
                                   random_key(0, "\"b\"", prompt), random_key(0, "line 1", prompt),
                                   random_key(0, "\"a\"", other),  random_key(0, "\"a\"", longer),
                                   random_key(0, "", prompt)};
  CHECK(keys.size() == 7);
  CHECK(random_key(7, "\"request-12\"", prompt) == 1345778534173760985u);
}

TEST_CASE("a draw is that of the plain implementation, on every instruction set") {
  MESSAGE("instruction sets: " << isa_names());
  Random random{11};
  int greedy = 0, filtered = 0;
  for (int i = 0; i < 3000; ++i) {
    const Case c = random_case(random);
    const TokenId right = draw_plainly(c);
    greedy += c.params.temperature == 0;
    filtered += c.params.top_k > 0 || c.params.top_p < 1 || c.params.min_p > 0;
    for (const Kernels* kernels : usable_kernels()) {
      INFO("case " << i << " " << kernels->name);
      REQUIRE(draw(*kernels, c) == right);
    }
  }
  CHECK(greedy > 100);
  CHECK(filtered > 1000);
}

TEST_CASE("a draw does not depend on the rows drawn before") {
  Random random{12};
  const FlushDenormals guard;
  Sampler reused(kPortableKernels);
  for (int i = 0; i < 500; ++i) {
    const Case c = random_case(random);
    CHECK(reused.draw(c.logits, c.row()) == draw(kPortableKernels, c));
  }
}

TEST_CASE("greedy takes the lowest id among the largest logits") {
  Case c;
  c.logits.assign(700, 1.0f);
  c.logits[300] = c.logits[301] = c.logits[650] = 2.0f;
  CHECK(draw(kPortableKernels, c) == 300);
  c.banned = {300};
  CHECK(draw(kPortableKernels, c) == 301);
  c.params.logit_bias = {{650, 0.5f}};
  CHECK(draw(kPortableKernels, c) == 650);
  c.allowed = {699, 5, 300};
  CHECK(draw(kPortableKernels, c) == 5);
}

TEST_CASE("a row without a finite logit draws nothing") {
  for (const float temperature : {0.0f, 1.0f}) {
    for (const float value : {-INFINITY, INFINITY, NAN}) {
      Case c;
      c.params.temperature = temperature;
      c.logits.assign(40, value);
      CHECK(draw(kPortableKernels, c) == -1);
      c.logits[17] = -1e30f;
      CHECK(draw(kPortableKernels, c) == 17);
      c.banned = {17};
      CHECK(draw(kPortableKernels, c) == -1);
    }
  }
}

TEST_CASE("penalties: repetition divides or multiplies once, frequency counts completions only") {
  Case c;
  c.prompt = {0, 0, 1};
  c.generated = {2, 2, 3, 0};
  const auto largest_of = [&](std::vector<float> logits) {
    c.logits = std::move(logits);
    return draw(kPortableKernels, c);
  };
  c.params.repetition_penalty = 2.0f;  // 4 -> 2 and -1 -> -2
  CHECK(largest_of({4, 1, 1, 1, 1.9f}) == 0);
  CHECK(largest_of({4, 1, 1, 1, 2.1f}) == 4);
  CHECK(largest_of({-1, -1, -1, -1, -1.9f}) == 4);
  CHECK(largest_of({-1, -1, -1, -1, -2.1f}) == 0);
  c.params.repetition_penalty = 1.0f;
  c.params.frequency_penalty = 0.5f;  // 2 loses 1, 3 and 0 lose 0.5, 1 loses nothing
  CHECK(largest_of({4, 3.6f, 4.4f, 4, 3}) == 1);
  CHECK(largest_of({4.2f, 3.6f, 4.4f, 4, 3}) == 0);
  c.params.frequency_penalty = 0.0f;
  c.params.presence_penalty = 0.5f;  // 2, 3 and 0 lose 0.5
  CHECK(largest_of({4, 3.6f, 4.2f, 4, 3}) == 2);
}

TEST_CASE("draws follow the probabilities") {
  Random random{13};
  const int n = 300, draws = 60000;
  Case c;
  c.logits = random.normals(n, 2);
  c.params.temperature = 0.8f;
  c.key = 0x123456789abcdef;
  std::vector<double> p(n), counts(n);
  double total = 0;
  for (int i = 0; i < n; ++i) total += p[i] = std::exp(c.logits[i] / 0.8);
  for (int i = 0; i < draws; ++i) {
    c.position = i;
    ++counts[draw(*usable_kernels().back(), c)];
  }
  double chi2 = 0;
  for (int i = 0; i < n; ++i) {
    const double expected = p[i] / total * draws;
    chi2 += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  CHECK(std::abs(chi2 - n) < 5 * std::sqrt(2.0 * n));
}
