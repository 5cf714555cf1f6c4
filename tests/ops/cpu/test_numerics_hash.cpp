// One hash of logits, and one of log probabilities, for each model and compute type. They change
// only if the definition of an operation or a bundled model changes; the commit that does so
// changes the numbers here.
#include <doctest/doctest.h>

#include <iterator>

#include "tests/support/model_runner.h"
#include "tests/support/ops_support.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

struct Hash {  // FNV-1a over words
  uint64_t value = 0xcbf29ce484222325;
  void add(uint32_t word) { value = (value ^ word) * 0x100000001b3; }
};

// The logits after every token of a sequence that is longer than a segment of 256 keys: a prompt in
// two chunks, then single tokens.
std::vector<float> logits_of(const std::string& model, CpuIsa isa, DType compute, DType cache,
                             Quantization quantize) {
  constexpr int kPrompt = 262, kDecoded = 6;
  ModelRunner runner(source_dir() + "/datasets/" + model, compute, isa, 2, WeightSource::kFiles,
                     cache, quantize);
  runner.start(kPrompt + kDecoded);
  std::vector<float> logits;
  int next = 0;
  const auto advance = [&](int count) {
    std::vector<TokenId> tokens(count);
    std::vector<int32_t> wanted(count);
    for (int i = 0; i < count; ++i, ++next) {
      tokens[i] = (1 + next * next * 7) % runner.model.spec.vocab;
      wanted[i] = i;
    }
    for (const std::vector<float>& row : runner.run(tokens, wanted)) {
      logits.insert(logits.end(), row.begin(), row.end());
    }
  };
  advance(100);
  advance(kPrompt - 100);
  for (int i = 0; i < kDecoded; ++i) advance(1);
  return logits;
}

uint64_t hash_of_logits(const std::vector<float>& logits) {
  Hash hash;
  for (const float logit : logits) hash.add(bits_of(logit));
  return hash.value;
}

// Hashes the most likely token of each row, its log probability and the first 20 candidates.
uint64_t hash_of_log_probs(std::vector<float> logits, CpuIsa isa, int num_threads) {
  constexpr int kVocab = 1024;
  const SamplingParams greedy;
  std::vector<SampleRow> rows(logits.size() / kVocab, {.params = &greedy, .num_log_probs = 20});
  for (size_t i = 0; i < rows.size(); ++i) rows[i].logits_row = static_cast<int>(i);
  std::vector<DrawnToken> drawn(rows.size());
  const auto ops = make_cpu_ops({.isa = isa, .num_threads = num_threads});
  ops->collect(ops->sample(view(logits, std::ssize(rows), kVocab), rows), drawn);
  Hash hash;
  for (const DrawnToken& row : drawn) {
    hash.add(static_cast<uint32_t>(row.token));
    hash.add(bits_of(row.log_probability.value()));
    REQUIRE(row.candidates.size() == 20);
    for (const TokenCandidate& candidate : row.candidates) {
      hash.add(static_cast<uint32_t>(candidate.token));
      hash.add(bits_of(candidate.log_probability));
    }
  }
  return hash.value;
}

struct Hashes {
  uint64_t logits, log_probs;
};
// A type of computation and one of the cache, and what weights become.
struct Types {
  DType compute, cache;
  Quantization quantize = Quantization::kNone;
};
constexpr Types kTypes[] = {{DType::kF32, DType::kF32},
                            {DType::kBF16, DType::kBF16},
                            {DType::kF32, DType::kF16},
                            {DType::kBF16, DType::kI8},
                            {DType::kBF16, DType::kBF16, Quantization::kInt8}};
struct Committed {
  const char* model;
  Hashes hashes[std::size(kTypes)];
};
constexpr Committed kCommitted[] = {
    {"story-llama",
     {{10753741797400798459u, 15355271017959064094u},
      {765877138048836278u, 14977021444315599699u},
      {11056038616069024998u, 14966066762181136576u},
      {7286632301866591415u, 8804550031737928267u},
      {988022739732706296u, 7481019708423346896u}}},
    {"story-qwen3",
     {{5771660795247334748u, 614707839582442838u},
      {4376218965443474527u, 5338450255558681261u},
      {16793594505375358355u, 6854016762901204560u},
      {18140697001423536951u, 6696625774724732229u},
      {821160034707248695u, 17383229415750512267u}}},
    {"story-gemma3",
     {{2677514299680069207u, 9086941815519437963u},
      {11672766447340372614u, 1913413865768831289u},
      {18036301276247203826u, 11441575130466357507u},
      {16333971714340693841u, 9316857616297279234u},
      {1060369322026579326u, 17530455575110468706u}}},
};

}  // namespace

TEST_CASE("the bundled models' logits have the committed bits on every instruction set") {
  MESSAGE("instruction sets: " << isa_names());
  for (const auto& [model, hashes] : kCommitted) {
    for (const CpuIsa isa : available_isas()) {
      for (size_t i = 0; i < std::size(kTypes); ++i) {
        const auto [compute, cache, quantize] = kTypes[i];
        INFO(model << " on " << name_of(isa) << " in " << name_of(compute) << ", cache in "
                   << name_of(cache)
                   << (quantize == Quantization::kInt8 ? ", weights in int8" : ""));
        const std::vector<float> logits = logits_of(model, isa, compute, cache, quantize);
        CHECK(hash_of_logits(logits) == hashes[i].logits);
        for (const int threads : {1, 2, 5}) {
          CHECK(hash_of_log_probs(logits, isa, threads) == hashes[i].log_probs);
        }
      }
    }
  }
}
