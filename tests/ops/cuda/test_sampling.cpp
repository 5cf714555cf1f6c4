// Sampling on a GPU: from the same logits it draws the CPU's tokens, with their log probabilities.
#include "tests/support/cuda_support.h"
#include "tests/support/ops_support.h"

namespace pagedinfer {
namespace {

std::vector<DrawnToken> sample(StepProtocol& steps, Tensor logits,
                               const std::vector<SampleRow>& rows) {
  return collect(steps, steps.sample(logits, rows), rows.size());
}

std::vector<DrawnToken> sample_on(CudaOps& gpu, const std::vector<float>& logits, int vocab,
                                  const std::vector<SampleRow>& rows) {
  gpu.steps().stage({.query_starts = {0}, .max_blocks = 1, .block_size = 1});
  const Tensor copy = gpu.steps().scratch(DType::kF32, std::ssize(logits) / vocab, vocab);
  gpu.write(logits.data(), copy);
  return sample(gpu.steps(), copy, rows);
}

}  // namespace

TEST_CASE("on a GPU: each of several samples in flight has its own masks") {
  if (skips_without_gpu()) return;
  constexpr int kVocab = 1000, kRounds = 60;
  ModelSpec spec;
  spec.vocab = kVocab;
  const auto gpu = make_gpu(spec, {});
  const Tensor zeros = gpu->memory().allocate(DType::kF32, 1, kVocab);
  const Tensor logits = gpu->memory().allocate(DType::kF32, 1, kVocab);
  const SamplingParams greedy = {};
  std::vector<std::vector<uint32_t>> masks;
  std::vector<StepProtocol::Ticket> tickets;
  std::vector<TokenId> only, found;
  const auto collect_one = [&] {
    found.push_back(collect_tokens(gpu->steps(), tickets[found.size()], 1)[0]);
  };
  Random random{8};
  for (int round = 0; round < kRounds; ++round) {
    only.push_back(random.below(kVocab));
    std::vector<uint32_t>& mask = masks.emplace_back((kVocab + 31) / 32);
    mask[static_cast<size_t>(only.back() / 32)] = 1u << only.back() % 32;
    gpu->steps().stage({.query_starts = {0}, .max_blocks = 1, .block_size = 1});
    gpu->timing().copy(zeros, logits);  // a sample changes them
    const std::vector<SampleRow> rows = {{.params = &greedy, .mask = mask}};
    tickets.push_back(gpu->steps().sample(logits, rows));
    if (round > 0) collect_one();
  }
  collect_one();
  CHECK(found == only);
}

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
      std::vector<std::vector<uint32_t>> masks(params.size());
      const auto ids = [&](int most) {
        std::vector<TokenId> list(static_cast<size_t>(random.between(0, most)));
        for (TokenId& id : list) id = random.below(vocab);
        return list;
      };
      constexpr int kNumbers[] = {0, 1, 20, 256};
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
        if (random.below(4) == 0) {  // many tokens, few or none
          masks[i].resize(static_cast<size_t>(vocab + 31) / 32);
          const int some = random.below(3);
          for (uint32_t& word : masks[i]) {
            const auto bits = static_cast<uint32_t>(random.bits());
            word = some == 0 || random.below(40) == 0 ? bits : 0;
          }
          if (some == 2) masks[i][0] |= 1;
        }
        SampleRow row = {.params = &p,
                         .prompt = prompts[i],
                         .generated = generated[i],
                         .allowed = allowed[i],
                         .banned = banned[i],
                         .mask = masks[i],
                         .candidates_in_mask = !masks[i].empty() && random.below(2) == 0,
                         .key = random.bits(),
                         .position = static_cast<uint32_t>(random.below(5000)),
                         .logits_row = static_cast<int>(i),
                         .num_log_probs = random.below(2) ? kNumbers[random.below(4)] : -1};
        for (const uint32_t num_samples = 1 + random.below(3); row.sample < num_samples;
             ++row.sample) {
          rows.push_back(row);
        }
      }
      const std::vector<DrawnToken> expected =
          sample(cpu->steps(), view(logits, count, vocab), rows);
      const std::vector<DrawnToken> found = sample_on(*gpu, logits, vocab, rows);
      for (size_t i = 0; i < found.size(); ++i) {
        const bool greedy = rows[i].params->temperature == 0;
        if (greedy) CHECK(found[i].token == expected[i].token);
        differences += found[i].token != expected[i].token;
        ++drawn;
        if (found[i].token == expected[i].token) CHECK(found[i] == expected[i]);
      }
    }
  }
  MESSAGE(differences << " of " << drawn << " tokens differ");
  // The last bits of exp and of sums may differ, which shows if a draw falls between two tokens.
  CHECK(differences <= drawn / 500);
}

TEST_CASE("on a GPU: rows whose lists do not fit into one launch report as others do") {
  if (skips_without_gpu()) return;
  constexpr int kVocab = 61, kRows = 120, kTokens = 8000;
  ModelSpec spec;
  spec.vocab = kVocab;
  const auto gpu = make_gpu(spec, {});
  const auto cpu = make_cpu_ops({.isa = available_isas().back()});
  Random random{7};
  std::vector<float> logits = random.normals(kRows * kVocab, 3);
  SamplingParams params;
  params.repetition_penalty = 1.5f;
  std::vector<TokenId> tokens(kTokens);
  for (TokenId& id : tokens) id = random.below(kVocab);
  std::vector<SampleRow> rows;
  for (int i = 0; i < kRows; ++i) {
    SampleRow row = {.params = &params,
                     .prompt = tokens,
                     .logits_row = i,
                     .num_log_probs = random.between(-1, 5)};
    for (; row.sample < 2; ++row.sample) rows.push_back(row);
  }
  CHECK(sample_on(*gpu, logits, kVocab, rows) ==
        sample(cpu->steps(), view(logits, kRows, kVocab), rows));
}

}  // namespace pagedinfer
