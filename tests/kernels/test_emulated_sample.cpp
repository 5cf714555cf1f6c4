// The source of the GPU's sampling, run on the CPU, against the CPU's sampler.
#include <doctest/doctest.h>

#include <array>
#include <set>

#include "kernels/sample.h"
#include "ops/cpu/sampler.h"
#include "tests/emulated_cuda/device_support.h"

namespace pagedinfer::kernels {
namespace {

struct SampledRow {
  SamplingParams params = {};
  std::vector<TokenId> prompt = {}, generated = {}, allowed = {}, banned = {};
  SampleRow row = {};

  SampledRow(Random& random, int vocabulary) {
    const auto fill = [&](std::vector<TokenId>& to) {
      for (int i = random.below(40); i > 0; --i) to.push_back(random.below(vocabulary));
    };
    params.temperature = random.below(6) ? 0.2f + 2 * random.unit() : 0.0f;
    if (!random.below(3)) params.top_k = 1 + random.below(random.below(2) ? 50 : vocabulary + 5);
    if (!random.below(3)) params.top_p = random.below(3) ? 0.05f + 0.95f * random.unit() : 0.99999f;
    if (!random.below(3)) params.min_p = 0.3f * random.unit() * random.unit();
    if (!random.below(4)) params.repetition_penalty = 0.7f + random.unit();
    if (!random.below(4)) params.presence_penalty = random.normal();
    if (!random.below(4)) params.frequency_penalty = random.normal();
    const auto fill_distinct = [&](std::vector<TokenId>& to) {
      std::set<TokenId> ids;
      for (int i = random.below(40); i >= 0; --i) ids.insert(random.below(vocabulary));
      to.assign(ids.begin(), ids.end());
    };
    if (!random.below(3)) fill_distinct(banned);
    if (!random.below(4)) fill_distinct(allowed);
    fill(prompt), fill(generated);
    params.logit_bias = random_biases(random, 4, vocabulary);
    const uint64_t key = random.bits();
    const uint32_t sample = 1u + random.below(5), position = 1u + random.below(5000);
    row = {.params = &params,
           .prompt = prompt,
           .generated = generated,
           .allowed = allowed,
           .banned = banned,
           .key = key,
           .sample = sample,
           .position = position};
  }
  SampledRow(const SampledRow&) = delete;
};

SampleRowArgs args_of(const SampledRow& sampled, std::vector<int32_t>& tokens,
                      std::vector<float>& biases) {
  const SamplingParams& params = sampled.params;
  const auto put = [&](const std::vector<TokenId>& ids) {
    const TokenRange range = {static_cast<int>(tokens.size()), static_cast<int>(ids.size())};
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    biases.resize(tokens.size());
    return range;
  };
  std::vector<TokenId> biased;
  for (const TokenBias& bias : params.logit_bias) biased.push_back(bias.token);
  SampleRowArgs args = {};
  args.bias = put(biased);
  for (size_t i = 0; i < biased.size(); ++i) {
    biases[static_cast<size_t>(args.bias.begin) + i] = params.logit_bias[i].bias;
  }
  args.allowed = put(sampled.allowed);
  args.banned = put(sampled.banned);
  args.prompt = put(sampled.prompt);
  args.generated = put(sampled.generated);
  args.temperature = params.temperature;
  args.top_p = params.top_p, args.min_p = params.min_p, args.top_k = params.top_k;
  args.repetition_penalty = params.repetition_penalty;
  args.presence_penalty = params.presence_penalty;
  args.frequency_penalty = params.frequency_penalty;
  args.key = sampled.row.key;
  args.sample = sampled.row.sample, args.position = sampled.row.position;
  return args;
}

}  // namespace

TEST_CASE("the GPU's sampling draws the CPU sampler's tokens") {
  Random random{1};
  const FlushDenormals guard;
  Sampler sampler(kPortableKernels);
  for (int round = 0; round < 60; ++round) {
    // Flat logits of many tokens: more candidates than are sorted in shared memory.
    const int vocabulary = random.below(5) ? 1 + random.below(9000) : 5000 + random.below(60000);
    const int num_rows = 1 + random.below(4);
    GuardedMatrix<float> logits(random, num_rows, vocabulary, random.below(2));
    // Some equal logits, or almost all: more candidates than are sorted to report the largest.
    const float ties = std::array{0.0f, 0.0f, 1.0f, 0.05f}[random.below(4)];
    logits.fill(random, random.below(3) ? 4 : 0.3f);
    const auto special = std::array{0.0f, -0.0f, 2.0f, -INFINITY, NAN, INFINITY};
    std::vector<std::vector<float>> before(num_rows);
    for (int r = 0; r < num_rows; ++r) {
      const bool none = random.below(20) == 0;
      for (int i = 0; i < vocabulary; ++i) {
        if (none) logits.at(r, i) = -INFINITY;
        if (ties > 0) logits.at(r, i) = std::round(ties * logits(r, i));
        if (random.below(30) == 0 && !none) logits.at(r, i) = special[random.below(6)];
        before[r].push_back(logits(r, i));
      }
    }
    std::vector<std::unique_ptr<SampledRow>> rows;
    std::vector<SampleRowArgs> args;
    std::vector<int32_t> tokens;
    std::vector<int32_t> drawn(3);  // by the step before
    for (int32_t& id : drawn) id = random.below(4) ? random.below(vocabulary) : -1;
    std::vector<float> biases;
    int num_candidates = 0;
    for (int r = 0; r < num_rows; ++r) {
      rows.push_back(std::make_unique<SampledRow>(random, vocabulary));
      std::vector<TokenId>& generated = rows.back()->generated;
      if (random.below(2)) generated.push_back(-1 - random.below(3));  // a placeholder token
      args.push_back(args_of(*rows.back(), tokens, biases));
      for (TokenId& id : generated) id = id < 0 ? std::max(drawn[-1 - id], 0) : id;
      rows.back()->row.generated = generated;
      args.back().logits_row = r;
      args.back().adjusts = 1;
      args.back().first_row = static_cast<int>(args.size()) - 1;
      args.back().num_candidates = std::array{-1, 0, 1, 20, 256}[random.below(5)];
      args.back().candidates = num_candidates;
      num_candidates += std::max(args.back().num_candidates, 0);
      for (int samples = random.below(3); samples > 0; --samples) {
        args.push_back(args.back());
        args.back().adjusts = 0;
        args.back().num_candidates = -1;
        ++args.back().sample;
      }
    }
    std::vector<int32_t> out(args.size(), -7);
    NanBytes workspace(sample_workspace_bytes(std::ssize(args), vocabulary));
    std::vector<RawRow> raw_rows(args.size());
    std::vector<RawLogit> candidates(static_cast<size_t>(num_candidates));
    std::vector<float> drawn_logits(args.size()), listed(tokens.size());
    launch_sample(
        {.logits = static_cast<float*>(logits.matrix().data),
         .stride = logits.matrix().stride,
         .num_rows = static_cast<int>(args.size()),
         .vocabulary = vocabulary,
         .rows = args.data(),
         .tokens = tokens.data(),
         .drawn = drawn.data(),
         .biases = biases.data(),
         .any_adjusted = true,
         .any_drawn = true,
         .any_filtered = true,
         .report = {raw_rows.data(), candidates.data(), drawn_logits.data(), listed.data()},
         .out = out.data(),
         .workspace = workspace.as<void>()},
        nullptr);
    CHECK(logits.guards_are_whole());
    for (size_t i = 0; i < args.size(); ++i) {
      CAPTURE(vocabulary);
      SampleRow row = rows[args[i].logits_row]->row;
      row.sample = args[i].sample;
      const std::vector<float>& raw = before[args[i].logits_row];
      REQUIRE(out[i] == sampler.draw(raw, row));
      const auto first = static_cast<size_t>(args[i].first_row);
      row.num_log_probs = args[first].num_candidates;
      if (row.num_log_probs < 0) continue;
      DrawnToken expected = {.token = out[i]};
      sampler.report(raw, {&row, 1}, {&expected, 1});
      const RawRow& found = raw_rows[first];
      LogProbability log_probability;
      if (found.largest != -INFINITY) log_probability = {found.largest, found.sum};
      DrawnToken reported = {.token = out[i],
                             .log_probability = log_probability.of(drawn_logits[i])};
      for (int c = 0; c < found.num_candidates; ++c) {
        const auto& [id, logit] = candidates[static_cast<size_t>(args[first].candidates + c)];
        reported.candidates.push_back({id, log_probability.of(logit).value()});
      }
      REQUIRE(reported == expected);
    }
  }
}

}  // namespace pagedinfer::kernels
