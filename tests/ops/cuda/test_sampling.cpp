// Sampling on a GPU: from the same logits it draws the CPU's tokens.
#include "tests/support/cuda_support.h"
#include "tests/support/ops_support.h"

namespace pagedinfer {

TEST_CASE("on a GPU: the same logits and settings give the CPU's tokens") {
  if (skips_without_gpu()) return;
  const auto cpu = make_cpu_ops({.isa = available_isas().back(), .num_threads = 2});
  int64_t differences = 0, drawn = 0;
  for (const int vocab : {2, 61, 1000, 32000, 151936}) {
    ModelSpec spec;
    spec.vocab = vocab;
    const auto gpu = make_gpu(spec, {});
    Random random{static_cast<uint64_t>(vocab)};
    for (int trial = 0; trial < gpu_trials(20); ++trial) {
      INFO("vocabulary ", vocab, ", trial ", trial);
      const int count = random.between(1, vocab > 10000 ? 8 : 60);
      std::vector<float> logits = random.normals(static_cast<size_t>(count) * vocab, 3);
      for (int i = 0; i < count; ++i) {  // equal ones, and ones that cannot be drawn
        logits[static_cast<size_t>(i) * vocab + random.below(vocab)] = -INFINITY;
        if (random.below(4) == 0) {
          for (int id = 0; id < vocab; ++id) {
            float& x = logits[static_cast<size_t>(i) * vocab + id];
            x = std::round(2 * x) / 2;
          }
        }
        if (random.below(10) == 0) {
          for (int id = 0; id < vocab; ++id) {
            logits[static_cast<size_t>(i) * vocab + id] = -INFINITY;
          }
        }
      }
      std::vector<SamplingParams> params(static_cast<size_t>(count));
      std::vector<std::vector<TokenId>> prompts(params.size()), generated(params.size()),
          allowed(params.size()), banned(params.size());
      const auto ids = [&](int most) {
        std::vector<TokenId> list(static_cast<size_t>(random.between(0, most)));
        for (TokenId& id : list) id = random.below(vocab);
        return list;
      };
      std::vector<SampleRow> rows;
      for (size_t i = 0; i < params.size(); ++i) {
        SamplingParams& p = params[i];
        if (random.below(3)) p.temperature = 0.05f + 2 * random.unit();
        if (random.below(3) == 0) p.top_k = random.between(1, std::min(vocab, 80));
        if (random.below(3) == 0) p.top_p = 0.05f + 0.9f * random.unit();
        if (random.below(3) == 0) p.min_p = random.unit() / 2;
        if (random.below(3) == 0) p.repetition_penalty = 0.5f + random.unit();
        if (random.below(4) == 0) p.presence_penalty = random.unit();
        if (random.below(4) == 0) p.frequency_penalty = random.unit();
        if (random.below(4) == 0) {
          for (int id = 0; id < std::min(vocab, 9); ++id) p.logit_bias.push_back({id, 2.5f});
        }
        prompts[i] = ids(50), generated[i] = ids(300);
        if (random.below(3) == 0) banned[i] = ids(5);
        if (random.below(4) == 0) allowed[i] = ids(9);
        SampleRow row = {.params = &p,
                         .prompt = prompts[i],
                         .generated = generated[i],
                         .allowed = allowed[i],
                         .banned = banned[i],
                         .key = random.bits(),
                         .position = static_cast<uint32_t>(random.below(5000)),
                         .logits_row = static_cast<int>(i)};
        for (const uint32_t num_samples = 1 + random.below(3); row.sample < num_samples;
             ++row.sample) {
          rows.push_back(row);
        }
      }
      std::vector<float> copy = logits;
      gpu->stage({.query_starts = {0}, .max_blocks = 1, .block_size = 1});
      const Tensor on_gpu = gpu->scratch(DType::kF32, count, vocab);
      gpu->write(logits.data(), on_gpu);
      const std::vector<TokenId> expected =
          collect_tokens(*cpu, cpu->sample(view(copy, count, vocab), rows), rows.size());
      const std::vector<TokenId> found =
          collect_tokens(*gpu, gpu->sample(on_gpu, rows), rows.size());
      for (size_t i = 0; i < found.size(); ++i) {
        const bool greedy = rows[i].params->temperature == 0;
        if (greedy) CHECK(found[i] == expected[i]);
        differences += found[i] != expected[i];
        ++drawn;
      }
    }
  }
  MESSAGE(differences << " of " << drawn << " tokens differ");
  // The last bits of exp and of sums may differ, which shows if a draw falls between two tokens.
  CHECK(differences <= drawn / 500);
}

}  // namespace pagedinfer
