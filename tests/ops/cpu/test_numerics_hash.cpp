// One hash of logits, and one of log probabilities, for each model and compute type. They change
// only if the definition of an operation or a bundled model changes; the commit that does so
// changes the numbers here.
#include <doctest/doctest.h>
#include <simdjson.h>

#include <iterator>

#include "tests/support/bits_hash.h"
#include "tests/support/model_runner.h"
#include "tests/support/ops_support.h"
#include "tests/support/recorded_adapter.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

// The logits after every token of a sequence that is longer than a segment of 256 keys: a prompt in
// two chunks, then single tokens.
std::vector<float> logits_of(ModelRunner& runner) {
  constexpr int kPrompt = 262, kDecoded = 6;
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
  BitsHash hash;
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
  ops->steps().collect(ops->steps().sample(view(logits, std::ssize(rows), kVocab), rows), drawn);
  BitsHash hash;
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
                            {DType::kBF16, DType::kBF16, Quantization::kInt8},
                            {DType::kBF16, DType::kBF16, Quantization::kInt4}};
struct Committed {
  const char* model;
  Hashes hashes[std::size(kTypes)];
};
constexpr Committed kCommitted[] = {
    {"story-llama",
     {{10753741797400798459u, 15355271017959064094u},
      {7124856162496267834u, 2552719679403557594u},
      {11056038616069024998u, 14966066762181136576u},
      {7286632301866591415u, 8804550031737928267u},
      {9788432119222403864u, 261349631279813551u},
      {9436193814869248323u, 15127481271608182068u}}},
    {"story-qwen3",
     {{5771660795247334748u, 614707839582442838u},
      {12923240880801726198u, 10056944165756150946u},
      {16793594505375358355u, 6854016762901204560u},
      {18140697001423536951u, 6696625774724732229u},
      {3971788525023001709u, 15423016125558731179u},
      {230540122804259426u, 6165896178583934307u}}},
    {"story-gemma3",
     {{2677514299680069207u, 9086941815519437963u},
      {12892750129325346255u, 13368454211419201636u},
      {18036301276247203826u, 11441575130466357507u},
      {16333971714340693841u, 9316857616297279234u},
      {7353569308358203248u, 506852236028958693u},
      {284606068416381078u, 1876251929199967942u}}},
};

// A tiny model of tests/data/families, for what the bundled models do not compute.
struct Family {
  const char* name;
  uint64_t float32, bfloat16, cache_int8;
};
constexpr Family kFamilies[] = {
    // biases of outputs and of the MLP
    {"llama-biases", 12354682251966064274u, 5372270637374791971u, 1684041213851621621u},
    // layers without rope
    {"smollm3-tied", 7059604226547445902u, 10060337571560840941u, 13602434380197557786u},
    // multipliers
    {"granite-multipliers", 2540141080365824564u, 4452839605781314360u, 17026732509990145405u},
    // norms of whole rows of q and k
    {"olmo2-grouped", 14001299701023637678u, 4687698198887878581u, 13822716078171146397u},
    // rope in part of a head, scaled; rows of one tensor
    {"phi3-longrope-partial-long-run", 9444311074732971258u, 13503268695356265435u,
     3641980482857298444u},
    {"llama-yarn", 1390301028652920346u, 14371081010494534267u, 12918506533475893677u},
    {"llama-dynamic-long-run", 16747924865581060138u, 13230785088325715789u, 14523060332144887608u},
    // soft caps
    {"gemma2-old-config", 14270166644975512026u, 17764257114275054392u, 138281239286774709u},
    // q that grows with its position
    {"ministral3-yarn", 5358679372646386513u, 2097477409159870062u, 18117906673962216280u},
    // rope's pairs are neighbours in the checkpoint, also in biases
    {"glm4-partial-odd-new-config", 16727258013068666001u, 16298009506005233680u,
     6073278887458103796u},
    // experts: beside a shared one; limits of q, k and v; sinks, biases and a gate with limits
    {"qwen2-moe-shared", 7024057914352735919u, 16563446656709107008u, 13024902037624087919u},
    {"olmoe-limited", 4925834004917036006u, 17947879480670653965u, 9710514794364810263u},
    {"gpt-oss", 13164579755343535671u, 9557469907287776376u, 14471698332538805374u},
};

// The hashes of a tiny model, the last one with its weights in int8.
struct TinyModel {
  const char* name;
  uint64_t float32, bfloat16, int8;
};
// Checkpoints of tests/data/quantized.
constexpr TinyModel kQuantized[] = {
    {"fp8-blocks", 1190107929756895586u, 14274103494622088135u, 4664389219252770001u},
    {"ct-int-mixed", 720127293891757136u, 971119979693668950u, 1157193709836864505u},
    {"ct-packed-4-order-fused", 7600942816812678415u, 2227721709975252564u, 4687945015073335896u},
    {"gptq-4-order", 1077925489498598442u, 6484560869234465627u, 5950119825204042666u},
    {"awq-biases", 3441933845179371842u, 6752707532977479306u, 9949048826121619995u},
};

// Checkpoints whose codes of 4 bits stay.
constexpr std::pair<const char*, uint64_t> kCodes[] = {
    {"gptq-4-order-groups", 15071011976174933825u},
    {"awq-groups", 14010207535742901793u},
    {"ct-packed-4-groups", 4938006133476971981u}};

// Models of tests/data/adapters, with the adapter merged.
constexpr TinyModel kMerged[] = {
    // ranks and scales by patterns
    {"llama-patterns-rslora", 17295352633498688967u, 7259388840087174585u, 13208526761706210003u},
    // rows of one tensor
    {"phi3-all", 5353081331198415972u, 3102173113554784567u, 3710086827947706186u},
    // an embedding, numbers in bfloat16
    {"granite-embeddings", 9377482731042965050u, 14223074765311262265u, 9003916017173857044u},
};

// The hashes of a bundled model in bfloat16 whose layers have codes of 4 bits, in groups of 32 and
// of 128 columns.
struct InCodes {
  const char* model;
  uint64_t hashes[2];
};
constexpr int64_t kCodeGroups[] = {32, 128};
constexpr InCodes kInCodes[] = {{"story-llama", {415939731981620812u, 2467605565801819765u}},
                                {"story-qwen3", {597153325830664226u, 18078655883109794519u}},
                                {"story-gemma3", {12432180890745539016u, 1301386799464477499u}}};

// REQUIRES: the matrices are as the checkpoint has them.
void round_layers_to_codes(ModelRunner& runner, int64_t group) {
  for (LayerWeights& layer : runner.weights.layers) {
    for (Tensor* matrix : {&layer.q, &layer.k, &layer.v, &layer.attention_out, &layer.gate,
                           &layer.up, &layer.down}) {
      *matrix = runner.ops->memory().upload_codes(rounded_to_codes(stored_rows(*matrix), group));
    }
  }
}

void check_bits(const TinyModel& model, const std::string& dir, WeightSource source,
                const std::string& adapter = "") {
  for (const CpuIsa isa : available_isas()) {
    const auto hash_of = [&](DType compute, Quantization quantize) {
      ModelRunner runner(dir, compute, isa, 2, source, {}, quantize, adapter);
      return hash_of_logits(logits_of(runner));
    };
    INFO(std::string(model.name) << " on " << std::string(name_of(isa)));
    CHECK(hash_of(DType::kF32, Quantization::kNone) == model.float32);
    CHECK(hash_of(DType::kBF16, Quantization::kNone) == model.bfloat16);
    CHECK(hash_of(DType::kBF16, Quantization::kInt8) == model.int8);
  }
}

}  // namespace

TEST_CASE(
    "logits of models with merged adapters have the committed bits on every instruction set") {
  for (const TinyModel& model : kMerged) {
    simdjson::dom::parser parser;
    const TempDir dir, adapter;
    write_recorded(parser.load(source_dir() + "/tests/data/adapters/" + model.name + ".json"),
                   dir.path(), adapter.path());
    check_bits(model, dir.path(), WeightSource::kDummy, adapter.path());
  }
}

TEST_CASE("logits of quantized checkpoints have the committed bits on every instruction set") {
  for (const TinyModel& model : kQuantized) {
    check_bits(model, source_dir() + "/tests/data/quantized/" + model.name, WeightSource::kFiles);
  }
  for (const auto& [name, expected] : kCodes) {
    for (const CpuIsa isa : available_isas()) {
      ModelRunner runner(source_dir() + "/tests/data/quantized/" + name, DType::kBF16, isa, 2,
                         WeightSource::kFiles, {}, Quantization::kCodes);
      INFO(std::string(name) << " on " << std::string(name_of(isa)));
      CHECK(hash_of_logits(logits_of(runner)) == expected);
    }
  }
}

TEST_CASE(
    "logits of the families' own operations have the committed bits on every instruction set") {
  for (const Family& family : kFamilies) {
    simdjson::dom::parser parser;
    const simdjson::dom::element record =
        parser.load(source_dir() + "/tests/data/families/" + family.name + ".json");
    int64_t max_model_len = 0;
    const bool has_length = record["max_model_len"].get(max_model_len) == simdjson::SUCCESS;
    const TempDir dir;
    write_file(dir / "config.json", simdjson::minify(record["config"]));
    for (const CpuIsa isa : available_isas()) {
      const auto hash_of = [&](DType compute, DType cache) {
        ModelRunner runner(dir.path(), compute, isa, 2, WeightSource::kDummy, cache);
        if (has_length) {
          use_ropes(runner.model.spec, static_cast<int>(max_model_len), runner.weights);
        }
        return hash_of_logits(logits_of(runner));
      };
      INFO(std::string(family.name) << " on " << std::string(name_of(isa)));
      CHECK(hash_of(DType::kF32, DType::kF32) == family.float32);
      CHECK(hash_of(DType::kBF16, DType::kBF16) == family.bfloat16);
      CHECK(hash_of(DType::kBF16, DType::kI8) == family.cache_int8);
    }
  }
}

TEST_CASE("logits of layers in codes have the committed bits on every instruction set") {
  for (const auto& [model, hashes] : kInCodes) {
    for (const CpuIsa isa : available_isas()) {
      for (size_t i = 0; i < std::size(kCodeGroups); ++i) {
        INFO(std::string(model) << " on " << std::string(name_of(isa)) << ", groups of "
                                << kCodeGroups[i]);
        ModelRunner runner(source_dir() + "/datasets/" + model, DType::kBF16, isa, 2);
        round_layers_to_codes(runner, kCodeGroups[i]);
        CHECK(hash_of_logits(logits_of(runner)) == hashes[i]);
      }
    }
  }
}

TEST_CASE("the bundled models' logits have the committed bits on every instruction set") {
  MESSAGE("instruction sets: " << isa_names());
  for (const auto& [model, hashes] : kCommitted) {
    for (const CpuIsa isa : available_isas()) {
      for (size_t i = 0; i < std::size(kTypes); ++i) {
        const auto [compute, cache, quantize] = kTypes[i];
        INFO(model << " on " << name_of(isa) << " in " << name_of(compute) << ", cache in "
                   << name_of(cache) << ", weights " << static_cast<int>(quantize));
        ModelRunner runner(source_dir() + "/datasets/" + model, compute, isa, 2,
                           WeightSource::kFiles, cache, quantize);
        const std::vector<float> logits = logits_of(runner);
        CHECK(hash_of_logits(logits) == hashes[i].logits);
        for (const int threads : {1, 2, 5}) {
          CHECK(hash_of_log_probs(logits, isa, threads) == hashes[i].log_probs);
        }
      }
    }
  }
}
