// Whole models on a GPU against the CPU: logits within the tolerances, and the same greedy tokens
// wherever the two best logits are further apart than the error.
#include <filesystem>

#include "tests/support/cuda_support.h"
#include "tests/support/model_goldens.h"
#include "tests/support/model_runner.h"
#include "tests/support/ops_support.h"
#include "tests/support/support.h"
#include "tests/support/tiny_model.h"

namespace pagedinfer {
namespace {

// A model on a GPU, and one sequence through it.
class GpuRunner {
 public:
  GpuRunner(const std::string& dir, DType compute, int num_positions, WeightSource source,
            Quantization quantize = Quantization::kNone)
      : model_(open_model(dir, source)),
        ops_(make_gpu(model_.spec, {.compute = compute},
                      (source == WeightSource::kDummy ? 256 : 8) * kMiB)),
        weights_(load_weights(model_, compute, ops_->memory(), quantize)),
        num_positions_(num_positions) {
    for (size_t i = 0; i < model_.spec.layers.size(); ++i) {
      cache_.push_back(ops_->memory().allocate_kv(compute, model_.spec.kv_heads,
                                                  model_.spec.head_dim, num_positions));
    }
  }

  // Computes `tokens` from position `first` on; the logits after each of them.
  std::vector<std::vector<float>> run(int first, std::vector<TokenId> tokens) {
    const auto count = static_cast<int32_t>(tokens.size());
    Batch batch = {.tokens = std::move(tokens)};
    batch.positions.resize(static_cast<size_t>(count));
    std::iota(batch.positions.begin(), batch.positions.end(), first);
    batch.logit_tokens.resize(static_cast<size_t>(count));
    std::iota(batch.logit_tokens.begin(), batch.logit_tokens.end(), 0);
    batch.slot_mapping = batch.positions;
    batch.query_starts = {0, count};
    batch.context_lens = {first + count};
    batch.block_table = {0};
    batch.max_blocks = 1;
    batch.block_size = num_positions_;
    const BatchView view = ops_->steps().stage(batch);
    const Tensor logits =
        forward(model_.spec, weights_, cache_, view, ops_->steps(), ops_->arithmetic());
    std::vector<float> all(static_cast<size_t>(logits.rows * logits.cols));
    ops_->read(logits, all.data());
    std::vector<std::vector<float>> rows;
    for (int64_t i = 0; i < logits.rows; ++i) {
      rows.emplace_back(all.begin() + i * logits.cols, all.begin() + (i + 1) * logits.cols);
    }
    return rows;
  }

 private:
  OpenedModel model_;
  std::unique_ptr<CudaOps> ops_;
  Weights weights_;
  std::vector<KvLayer> cache_ = {};
  int num_positions_;
};

// How far the best logit is above the second best.
float margin_of(std::vector<float> row) {
  std::nth_element(row.begin(), row.begin() + 1, row.end(), std::greater<>());
  return row[0] - row[1];
}

void compare(const std::string& dir, DType compute, WeightSource source = WeightSource::kFiles) {
  constexpr int kPrompt = 40, kPositions = 96;
  const auto length = static_cast<size_t>(kPrompt + std::max(4, gpu_trials(40)));
  INFO(dir, ", ", std::string(name_of(compute)));
  ModelRunner reference(dir, DType::kF32, available_isas().back(), 2, source);
  ModelRunner rounded(dir, compute == DType::kF32 ? DType::kF32 : DType::kBF16,
                      available_isas().back(), 2, source);
  GpuRunner gpu(dir, compute, kPositions, source);
  Random random{77};
  std::vector<TokenId> tokens(kPrompt);
  for (TokenId& token : tokens) token = random.below(reference.model.spec.vocab);

  reference.start(kPositions);
  std::vector<std::vector<float>> expected = reference.run(tokens, [&] {
    std::vector<int32_t> all(tokens.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }());
  while (tokens.size() < length) {
    tokens.push_back(best_of(expected.back()));
    expected.push_back(reference.run({tokens.back()}, {0})[0]);
  }
  rounded.start(kPositions);
  std::vector<int32_t> wanted(tokens.size());
  std::iota(wanted.begin(), wanted.end(), 0);
  const std::vector<std::vector<float>> on_cpu = rounded.run(tokens, wanted);

  std::vector<std::vector<float>> found = gpu.run(0, {tokens.begin(), tokens.begin() + kPrompt});
  for (size_t i = kPrompt; i < tokens.size(); ++i) {
    found.push_back(gpu.run(static_cast<int>(i), {tokens[i]})[0]);
  }
  const std::vector<std::vector<float>> again = gpu.run(0, tokens);  // as one prompt

  float error = 0, cpu_error = 0, size = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    error = std::max({error, largest_difference(found[i], expected[i]),
                      largest_difference(again[i], expected[i])});
    cpu_error = std::max(cpu_error, largest_difference(on_cpu[i], expected[i]));
    size = std::max(size, largest(expected[i]));
  }
  MESSAGE(std::string(name_of(compute))
          << ": error " << error << ", of the CPU " << cpu_error << ", largest logit " << size);
  if (compute == DType::kF32) CHECK(error <= 1e-4f * size);
  // The CPU, in bfloat16 here, keeps float32 between products. float16 has three bits more.
  if (compute == DType::kBF16) CHECK(error <= 4 * cpu_error);
  if (compute == DType::kF16) CHECK(error <= 0.5f * cpu_error);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (margin_of(expected[i]) <= 2 * error) continue;  // a near-tie
    CHECK(best_of(found[i]) == best_of(expected[i]));
    CHECK(best_of(again[i]) == best_of(expected[i]));
  }
}

}  // namespace

TEST_CASE("on a GPU: the bundled model is the CPU's") {
  if (skips_without_gpu()) return;
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) compare(bundled_model(), type);
}

TEST_CASE("on a GPU: logits of the bundled models are the reference's, as on the CPU") {
  if (skips_without_gpu()) return;
  for (const std::string model : {"story-llama", "story-qwen3", "story-gemma3"}) {
    CAPTURE(model);
    const std::string dir = source_dir() + "/datasets/" + model;
    const std::string goldens = source_dir() + "/tests/data/" + model + "/logits.jsonl";
    GpuRunner exact(dir, DType::kF32, 4096, WeightSource::kFiles);
    GpuRunner rounded(dir, DType::kBF16, 4096, WeightSource::kFiles);
    simdjson::dom::parser parser;
    float ours = 0, theirs = 0;
    int count = 0;
    for (const simdjson::dom::element record : parser.load_many(goldens, 1 << 22)) {
      if (!is_gpu_case(count++)) continue;
      const auto tokens = ints(record["token_ids"]), positions = ints(record["positions"]);
      const auto exact_rows = exact.run(0, tokens), rounded_rows = rounded.run(0, tokens);
      for (size_t i = 0; i < positions.size(); ++i) {
        const auto at = static_cast<size_t>(positions[i]);
        const auto reference = floats(record["float32"].at(i));
        CHECK(largest_difference(exact_rows[at], reference) <= 1e-4f * largest(reference));
        ours = std::max(ours, largest_difference(rounded_rows[at], reference));
        theirs = std::max(theirs, largest_difference(floats(record["bfloat16"].at(i)), reference));
      }
    }
    CHECK(count >= 10);
    MESSAGE(model << ": bfloat16: largest error " << ours << ", the reference's " << theirs);
    CHECK(ours <= 1.5f * theirs);
  }
}

TEST_CASE("on a GPU: logits of every family with experts are the reference's") {
  if (skips_without_gpu()) return;
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir() + "/tests/data/families")) {
    const std::string name = entry.path().stem();
    CAPTURE(name);
    simdjson::dom::parser parser;
    const simdjson::dom::element record = parser.load(entry.path());
    const TempDir dir;
    write_file(dir / "config.json", simdjson::minify(record["config"]));
    const ModelSpec spec = open_model(dir.path(), WeightSource::kDummy).spec;
    if (spec.experts.count == 0) continue;
    ++count;
    GpuRunner exact(dir.path(), DType::kF32, 512, WeightSource::kDummy);
    GpuRunner rounded(dir.path(), DType::kBF16, 512, WeightSource::kDummy);
    float worst = 0, ours = 0, theirs = 0;
    for (const simdjson::dom::element sequence : record["sequences"]) {
      const auto tokens = ints(sequence["token_ids"]), positions = ints(sequence["positions"]);
      const auto exact_rows = exact.run(0, tokens), rounded_rows = rounded.run(0, tokens);
      for (size_t i = 0; i < positions.size(); ++i) {
        const auto at = static_cast<size_t>(positions[i]);
        const auto reference = floats(sequence["float32"].at(i));
        worst = std::max(worst, largest_difference(exact_rows[at], reference) / largest(reference));
        ours = std::max(ours, largest_difference(rounded_rows[at], reference));
        theirs =
            std::max(theirs, largest_difference(floats(sequence["bfloat16"].at(i)), reference));
      }
    }
    MESSAGE(name << ": " << worst << " of the largest logit; bfloat16: largest error " << ours
                 << ", the reference's " << theirs);
    CHECK(worst <= 1e-4f);
    CHECK(ours <= 2 * theirs);  // a rounding may choose another expert
  }
  CHECK(count >= 9);
}

TEST_CASE("on a GPU: weights in int8 lose what they lose on the CPU") {
  if (skips_without_gpu()) return;
  constexpr int kTokens = 12;
  for (const std::string model : {"story-llama", "story-gemma3"}) {
    CAPTURE(model);
    const std::string dir = source_dir() + "/datasets/" + model;
    std::vector<TokenId> tokens(kTokens);
    std::vector<int32_t> wanted(kTokens);
    std::iota(wanted.begin(), wanted.end(), 0);
    Random random{5};
    for (TokenId& token : tokens) token = random.below(500);
    const auto on_cpu = [&](Quantization quantize) {
      ModelRunner runner(dir, DType::kF32, available_isas().back(), 2, WeightSource::kFiles, {},
                         quantize);
      runner.start(kTokens);
      return runner.run(tokens, wanted);
    };
    const auto exact = on_cpu(Quantization::kNone), eight = on_cpu(Quantization::kInt8);
    const auto distance = [&](const auto& a, const auto& b) {
      double squares = 0;
      for (size_t i = 0; i < a.size(); ++i) {
        for (size_t j = 0; j < a[i].size(); ++j) {
          squares += (double{a[i][j]} - b[i][j]) * (double{a[i][j]} - b[i][j]);
        }
      }
      return std::sqrt(squares);
    };
    const double lost = distance(eight, exact);
    for (const DType compute : {DType::kF32, DType::kBF16}) {
      GpuRunner gpu(dir, compute, kTokens, WeightSource::kFiles, Quantization::kInt8);
      const auto found = gpu.run(0, tokens);
      MESSAGE(model << ", " << std::string(name_of(compute)) << ": lost " << distance(found, exact)
                    << ", on the CPU " << lost << ", apart " << distance(found, eight));
      CHECK(distance(found, exact) <= 1.5 * lost);
      // A number between two integers may be rounded to the other one.
      if (compute == DType::kF32) CHECK(distance(found, eight) <= 0.5 * lost);
    }
  }
}

TEST_CASE("on a GPU: a tiny model of each family is the CPU's") {
  if (skips_without_gpu()) return;
  int number = 0;
  for (const int head_dim : {8, 64, 128}) {  // with and without tensor cores
    std::vector<TinyFamily> families = {
        {}, tiny_mistral(13), tiny_qwen2(13, 4), tiny_qwen3(), tiny_gemma3(13, 4)};
    for (const TinyFamily& family : tiny_newer_families(13, 4, head_dim)) {
      families.push_back(family);
    }
    for (const TinyFamily& family : families) {
      INFO(family.architecture);
      for (const DType stored : {DType::kF32, DType::kBF16, DType::kF16}) {
        if (!is_gpu_case(number++)) continue;
        const TinyModel files({.seed = 9,
                               .hidden = 64,
                               .layers = 4,
                               .head_dim = head_dim,
                               .intermediate = 96,
                               .dtype = stored,
                               .llama3_rope = family.fields.empty() && !family.qk_norm,
                               .family = family});
        compare(files.dir(), DType::kF32);
        compare(files.dir(), stored);
      }
    }
  }
}

// In float32 only: a rounding to 16 bits may choose another expert, which changes more than it.
TEST_CASE("on a GPU: a tiny model of each family with experts is the CPU's") {
  if (skips_without_gpu()) return;
  for (const int head_dim : {8, 64}) {
    for (const TinyFamily& family : tiny_expert_families(13, 4)) {
      INFO(family.architecture);
      const TinyModel files({.seed = 9,
                             .hidden = 64,
                             .layers = 4,
                             .head_dim = head_dim,
                             .intermediate = 96,
                             .family = family});
      compare(files.dir(), DType::kF32);
    }
  }
}

TEST_CASE("on a GPU: dummy weights of a large model's shapes are the CPU's") {
  if (skips_without_gpu()) return;
  const TempDir dir;
  write_file(dir / "config.json", R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 1024,
    "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128,
    "intermediate_size": 2816, "vocab_size": 32000, "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true, "eos_token_id": 2,
    "torch_dtype": "bfloat16"})");
  compare(dir.path(), DType::kBF16, WeightSource::kDummy);
  compare(dir.path(), DType::kF32, WeightSource::kDummy);
}

}  // namespace pagedinfer
