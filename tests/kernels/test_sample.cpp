// The arithmetic that the GPU's sampling shares with the CPU's.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "core/philox.h"
#include "kernels/drawn_tokens.h"
#include "kernels/exact_math.h"
#include "kernels/sample_math.h"
#include "ops/cpu/sampler.h"
#include "tests/support/ops_support.h"

using namespace pagedinfer;
using namespace pagedinfer::kernels;

TEST_CASE("the GPU's exp has the CPU backend's bits") {
  const FlushDenormals guard;
  Random random{1};
  int64_t different = 0;
  const auto check = [&](float x) {
    float expected;
    kPortableKernels.exp(&x, &expected, 1);
    different += !same(exact_exp(x), expected);
  };
  for (int i = 0; i < 300000; ++i) check(from_bits(static_cast<uint32_t>(random.bits())));
  for (int i = 0; i < 300000; ++i) check(-100 * random.unit());
  for (const float x : {0.0f, -0.0f, INFINITY, -INFINITY, NAN, -87.33654f, -87.33655f, 88.72283f}) {
    check(x);
  }
  CHECK(different == 0);
}

TEST_CASE("the GPU's tanh has the CPU backend's bits") {
  const FlushDenormals guard;
  Random random{4};
  int64_t different = 0;
  const auto check = [&](float x) {
    float expected;
    kPortableKernels.tanh(&x, &expected, 1);
    different += !same(exact_tanh(x), expected);
  };
  for (int i = 0; i < 300000; ++i) check(from_bits(static_cast<uint32_t>(random.bits())));
  for (int i = 0; i < 300000; ++i) check(24 * random.unit() - 12);
  for (const float x : {0.0f, -0.0f, 0.5f, -0.5f, INFINITY, -INFINITY, NAN}) check(x);
  CHECK(different == 0);
}

TEST_CASE("the GPU's table of rotations has the CPU backend's bits") {
  Random random{2};
  int64_t different = 0;
  for (int i = 0; i < 20000; ++i) {
    const int position = random.below(1 << 20);
    const float inv_freq = random.below(8) ? random.unit() : 1.0f;
    float cos, sin;
    kPortableKernels.rope_table(position, &inv_freq, 1, 1.0f, &cos, &sin);
    const CosSin value = cos_sin(mul_rn(static_cast<float>(position), inv_freq));
    different += !same(value.cos, cos) + !same(value.sin, sin);
  }
  CHECK(different == 0);
}

TEST_CASE("the GPU's random numbers are the CPU's") {
  Random random{3};
  for (int i = 0; i < 2000; ++i) {
    const uint64_t key = random.bits();
    const uint32_t sample = static_cast<uint32_t>(random.bits()), position = random.below(1 << 20);
    CHECK(uniform_of(key, sample, position) == uniform(key, sample, position, 0));
  }
}

TEST_CASE("a placeholder token is the token drawn from its row, or 0 if none was") {
  constexpr std::array<int32_t, 3> kDrawn = {41, -1, 7};
  CHECK(resolved_token(0, nullptr) == 0);
  CHECK(resolved_token(12, nullptr) == 12);
  CHECK(resolved_token(-1, kDrawn.data()) == 41);
  CHECK(resolved_token(-2, kDrawn.data()) == 0);
  CHECK(resolved_token(-3, kDrawn.data()) == 7);
}

TEST_CASE("the network sorts any number of keys, in whole and by pieces") {
  Random random{4};
  const auto round = [](std::vector<uint64_t>& keys, int pairs, const auto& pair_of) {
    std::vector<int> used(keys.size());
    for (int i = 0; i < pairs; ++i) {
      const KeyPair pair = pair_of(i);
      REQUIRE(pair.low < pair.high);
      if (pair.high >= static_cast<int>(keys.size())) continue;
      // Threads do a round's pairs at the same time.
      REQUIRE(++used[static_cast<size_t>(pair.low)] == 1);
      REQUIRE(++used[static_cast<size_t>(pair.high)] == 1);
      uint64_t &a = keys[static_cast<size_t>(pair.low)], &b = keys[static_cast<size_t>(pair.high)];
      if (b < a) std::swap(a, b);
    }
  };
  for (int n = 1; n < 200; ++n) {
    std::vector<uint64_t> keys(static_cast<size_t>(n));
    for (uint64_t& key : keys) key = random.bits() >> random.below(60);
    std::vector<uint64_t> expected = keys;
    std::sort(expected.begin(), expected.end());
    int size = 2;
    while (size < n) size *= 2;
    for (int run = 2; run <= size; run *= 2) {
      round(keys, size / 2, [&](int i) { return flip_pair(i, run); });
      for (int distance = run / 4; distance > 0; distance /= 2) {
        round(keys, size / 2, [&](int i) { return step_pair(i, distance); });
      }
    }
    REQUIRE(keys == expected);
  }
}

TEST_CASE("keys order candidates by logit and then by id, and both can be read from them") {
  Random random{5};
  for (int i = 0; i < 20000; ++i) {
    const auto number = [&] {
      const float x = from_bits(static_cast<uint32_t>(random.bits()));
      return random.below(4) ? (std::isfinite(x) ? x : 1.0f) : random.below(2) ? 0.0f : -0.0f;
    };
    const float a = number(), b = random.below(3) ? number() : a;
    const int id_a = random.below(1 << 20), id_b = random.below(1 << 20);
    const bool before = a != b ? a > b : id_a < id_b;
    REQUIRE((key_of(a, id_a) < key_of(b, id_b)) == before);
    REQUIRE(logit_of(key_of(a, id_a)) == a);
    REQUIRE(id_of(key_of(a, id_a)) == id_a);
    REQUIRE(rank_of(a) > 0);
  }
  CHECK(rank_of(INFINITY) == 0);
  CHECK(rank_of(-INFINITY) == 0);
  CHECK(rank_of(NAN) == 0);
}

namespace {

// What the kernels do, one row after another and one number after another.
int draw_as_the_gpu(std::vector<float> x, const SampleRowArgs& row, const SampleRow& lists) {
  const int n = static_cast<int>(x.size());
  for (const TokenBias& bias : lists.params->logit_bias) {
    x[static_cast<size_t>(bias.token)] = add_rn(x[static_cast<size_t>(bias.token)], bias.bias);
  }
  for (int id = 0; id < n && !lists.allowed.empty(); ++id) {
    if (std::ranges::count(lists.allowed, id) == 0) x[static_cast<size_t>(id)] = -INFINITY;
  }
  for (const TokenId id : lists.banned) x[static_cast<size_t>(id)] = -INFINITY;
  for (int id = 0; id < n; ++id) {
    const bool in_prompt = std::count(lists.prompt.begin(), lists.prompt.end(), id) > 0;
    const auto times = std::count(lists.generated.begin(), lists.generated.end(), id);
    float& logit = x[static_cast<size_t>(id)];
    logit = penalized(logit, row, in_prompt, static_cast<int>(times));
  }
  std::vector<uint64_t> keys;
  for (int id = 0; id < n; ++id) {
    if (is_finite(x[static_cast<size_t>(id)])) {
      keys.push_back(key_of(x[static_cast<size_t>(id)], id));
    }
  }
  if (keys.empty()) return -1;
  std::sort(keys.begin(), keys.end());
  if (is_greedy(row)) return id_of(keys[0]);
  const float largest = logit_of(keys[0]);
  std::vector<float> weights;
  const auto total_of = [&](const auto& count, const auto& weight) {
    weights.clear();
    double total = 0;
    for (int first = 0; first < count; first += kWeightBlock) {
      const int end = std::min(first + kWeightBlock, static_cast<int>(count));
      for (int i = first; i < end; ++i) weights.push_back(weight(i));
      total = add_rn(total, static_cast<double>(interleaved_sum(
                                std::span(weights).subspan(static_cast<size_t>(first)))));
    }
    return total;
  };
  const auto by_id = [&](int id) {
    return weight_of(x[static_cast<size_t>(id)], largest, row.temperature);
  };
  const auto by_key = [&](int i) {
    return weight_of(logit_of(keys[static_cast<size_t>(i)]), largest, row.temperature);
  };
  const bool filtered = is_filtered(row, n);
  int count = filtered ? static_cast<int>(keys.size()) : n;
  if (filtered) {
    if (has_top_k(row, n)) count = std::min(count, row.top_k);
    if (row.top_p < 1.0f) {
      const double total = has_top_k(row, n) ? total_of(count, by_key) : total_of(n, by_id);
      double sum = 0;
      for (int i = 0; i < count; ++i) {
        sum = add_rn(sum, static_cast<double>(by_key(i)));
        if (sum >= mul_rn(static_cast<double>(row.top_p), total)) count = i + 1;
      }
    }
    while (row.min_p > 0 && by_key(count - 1) < row.min_p) --count;
  }
  const double total = filtered ? total_of(count, by_key) : total_of(n, by_id);
  const double target =
      mul_rn(static_cast<double>(uniform_of(row.key, row.sample, row.position)), total);
  double before = 0;
  int first = 0;
  while (true) {
    const size_t here = std::min<size_t>(kWeightBlock, weights.size() - static_cast<size_t>(first));
    const double next = add_rn(
        before, static_cast<double>(
                    interleaved_sum(std::span(weights).subspan(static_cast<size_t>(first), here))));
    if (next > target) break;
    before = next, first += kWeightBlock;
  }
  int chosen = first;
  for (int i = first; i < std::min(first + kWeightBlock, count); ++i) {
    if (weights[static_cast<size_t>(i)] > 0) chosen = i;
    before = add_rn(before, static_cast<double>(weights[static_cast<size_t>(i)]));
    if (before > target) break;
  }
  return filtered ? id_of(keys[static_cast<size_t>(chosen)]) : chosen;
}

}  // namespace

TEST_CASE("the GPU's sampling arithmetic draws the CPU sampler's tokens") {
  Random random{6};
  const FlushDenormals guard;
  Sampler sampler(kPortableKernels);
  for (int round = 0; round < 3000; ++round) {
    const int n = random.below(4) ? random.between(2, 600) : random.between(600, 3000);
    std::vector<float> logits = random.normals(static_cast<size_t>(n), 4);
    for (float& x : logits) {
      if (random.below(20) == 0) x = std::array{0.0f, -0.0f, 2.0f, -INFINITY, NAN}[random.below(5)];
    }
    SamplingParams params;
    std::vector<TokenId> prompt, generated, allowed, banned;
    const auto tokens = [&](std::vector<TokenId>& to) {
      for (int i = random.below(20); i > 0; --i) to.push_back(random.below(n));
    };
    params.temperature = random.below(6) ? 0.2f + 2 * random.unit() : 0.0f;
    if (random.below(3) == 0) params.top_k = random.between(1, n + 5);
    if (random.below(3) == 0) params.top_p = 0.05f + 0.95f * random.unit();
    if (random.below(3) == 0) params.min_p = 0.3f * random.unit();
    if (random.below(4) == 0) params.repetition_penalty = 0.7f + random.unit();
    if (random.below(4) == 0) params.presence_penalty = random.normal();
    if (random.below(4) == 0) params.frequency_penalty = random.normal();
    if (random.below(3) == 0) tokens(banned);
    if (random.below(4) == 0) tokens(allowed);
    tokens(prompt), tokens(generated);
    params.logit_bias = random_biases(random, 4, n);
    const SampleRow lists = {.params = &params,
                             .prompt = prompt,
                             .generated = generated,
                             .allowed = allowed,
                             .banned = banned,
                             .key = random.bits(),
                             .sample = 1,
                             .position = 7};
    SampleRowArgs row = {};
    row.temperature = params.temperature;
    row.top_k = params.top_k;
    row.top_p = params.top_p;
    row.min_p = params.min_p;
    row.repetition_penalty = params.repetition_penalty;
    row.presence_penalty = params.presence_penalty;
    row.frequency_penalty = params.frequency_penalty;
    row.key = lists.key, row.sample = lists.sample, row.position = lists.position;
    REQUIRE(draw_as_the_gpu(logits, row, lists) == sampler.draw(logits, lists));
  }
}
