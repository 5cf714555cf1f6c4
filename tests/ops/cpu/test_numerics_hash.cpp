// One hash of logits for each model and compute type. It changes only if the definition of an
// operation or a bundled model changes; the commit that does so changes the number here.
#include <doctest/doctest.h>

#include "tests/support/model_runner.h"
#include "tests/support/ops_support.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

// Hashes the logits after every token of a sequence that is longer than a segment of 256 keys: a
// prompt in two chunks, then single tokens.
uint64_t hash_of_logits(const std::string& model, CpuIsa isa, DType compute) {
  constexpr int kPrompt = 262, kDecoded = 6;
  ModelRunner runner(source_dir() + "/datasets/" + model, compute, isa, 2);
  runner.start(kPrompt + kDecoded);
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a over the words
  int next = 0;
  const auto advance = [&](int count) {
    std::vector<TokenId> tokens(count);
    std::vector<int32_t> wanted(count);
    for (int i = 0; i < count; ++i, ++next) {
      tokens[i] = (1 + next * next * 7) % runner.model.spec.vocab;
      wanted[i] = i;
    }
    for (const std::vector<float>& row : runner.run(tokens, wanted)) {
      for (const float logit : row) hash = (hash ^ bits_of(logit)) * 0x100000001b3;
    }
  };
  advance(100);
  advance(kPrompt - 100);
  for (int i = 0; i < kDecoded; ++i) advance(1);
  return hash;
}

struct Committed {
  const char* model;
  uint64_t float32, bfloat16;
};
constexpr Committed kCommitted[] = {
    {"story-llama", 10753741797400798459u, 765877138048836278u},
    {"story-qwen3", 5771660795247334748u, 4376218965443474527u},
    {"story-gemma3", 2677514299680069207u, 11672766447340372614u},
};

}  // namespace

TEST_CASE("the bundled models' logits have the committed bits on every instruction set") {
  MESSAGE("instruction sets: " << isa_names());
  for (const auto& [model, float32, bfloat16] : kCommitted) {
    for (const CpuIsa isa : available_isas()) {
      INFO(model << " on " << name_of(isa));
      CHECK(hash_of_logits(model, isa, DType::kF32) == float32);
      CHECK(hash_of_logits(model, isa, DType::kBF16) == bfloat16);
    }
  }
}
