#include <doctest/doctest.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tests/support/idle_ops.h"
#include "tests/support/model_runner.h"
#include "tests/support/support.h"
#include "tests/support/tiny_model.h"

using namespace pagedinfer;

namespace {

// The largest difference in a row as a share of the largest reference value.
float difference(const std::vector<float>& row, const std::vector<float>& reference) {
  float most = 0.0f, largest = 0.0f;
  for (size_t i = 0; i < reference.size(); ++i) {
    most = std::max(most, std::isfinite(row[i]) ? std::abs(row[i] - reference[i]) : INFINITY);
    largest = std::max(largest, std::abs(reference[i]));
  }
  return most / largest;
}

std::vector<int32_t> all_of(size_t count) {
  std::vector<int32_t> indices(count);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// Counts the scratch memory that is taken.
class CountingSteps final : public IdleSteps {
 public:
  Tensor scratch(DType dtype, int64_t rows, int64_t cols) override {
    bytes += rows * cols * size_of(dtype);
    return {memory, dtype, rows, cols, cols};
  }
  DType activation_type() const override { return activation; }

  DType activation = DType::kF32;
  int64_t bytes = 0;

 private:
  float memory[1024] = {};  // never read
};

}  // namespace

TEST_CASE("tiny checkpoints from outside give the reference's logits") {
  for (const std::string name : {"tiny-llama", "tiny-llama-sharded", "tiny-qwen3", "tiny-gemma3"}) {
    // The sharded one is the same model.
    const std::string of = name == "tiny-llama-sharded" ? "tiny-llama" : name;
    const std::string reference = shared_data("models/" + of + "/logits.json");
    if (!std::filesystem::exists(reference)) {
      MESSAGE("SKIPPED: no " << reference);
      continue;
    }
    simdjson::dom::parser parser;
    const simdjson::dom::element golden = parser.load(reference);
    ModelRunner runner(shared_data("models/" + name), DType::kF32);
    size_t s = 0;
    float worst = 0.0f;
    for (const simdjson::dom::array sequence : golden["sequences"]) {
      std::vector<TokenId> tokens;
      for (const int64_t token : sequence) tokens.push_back(static_cast<TokenId>(token));
      runner.start(16);
      const auto rows = runner.run(tokens, all_of(tokens.size()));
      size_t r = 0;
      for (const simdjson::dom::array values : golden["logits"].at(s)) {
        std::vector<float> row;
        for (const double value : values) row.push_back(static_cast<float>(value));
        worst = std::max(worst, difference(rows.at(r++), row));
      }
      REQUIRE(r == tokens.size());
      ++s;
    }
    CHECK(s == 3);
    CHECK(worst <= 1e-4f);
    MESSAGE(name << ": largest difference " << worst);
  }
}

TEST_CASE("a sequence computed in chunks has the logits of the whole") {
  const TinyModel files({.llama3_rope = true});
  for (DType compute : {DType::kF32, DType::kBF16}) {
    ModelRunner runner(files.dir(), compute);
    std::vector<TokenId> tokens;
    for (int i = 0; i < 40; ++i) tokens.push_back(i * 17 % 61);
    runner.start(40);
    const auto whole = runner.run(tokens, {38, 39});
    runner.start(40);
    CHECK(runner.run({tokens.begin(), tokens.begin() + 13}, {}).empty());
    runner.run({tokens.begin() + 13, tokens.begin() + 39}, {0, 5});
    CHECK(runner.run({tokens[39]}, {0})[0] == whole[1]);
  }
}

TEST_CASE("sharded files and types of weights load to the same model") {
  const std::vector<TokenId> tokens = {1, 5, 9, 30, 60, 2};
  const auto logits = [&](const TinyModelOptions& options, DType compute) {
    const TinyModel files(options);
    ModelRunner runner(files.dir(), compute);
    runner.start(8);
    return runner.run(tokens, {0, 5});
  };
  const auto f32 = logits({}, DType::kF32);
  CHECK(logits({.sharded = true}, DType::kF32) == f32);
  // Rounded weights, so only nearly the same.
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    const float bound = dtype == DType::kBF16 ? 0.1f : 0.02f;
    const auto rounded = logits({.dtype = dtype}, DType::kF32);
    for (size_t i = 0; i < 2; ++i) CHECK(difference(rounded[i], f32[i]) < bound);
    CHECK(rounded != f32);
  }
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    CHECK(difference(logits({.dtype = dtype}, DType::kBF16)[1], f32[1]) < 0.1f);
  }
  CHECK(logits({.llama3_rope = true}, DType::kF32) != f32);
}

TEST_CASE("with tied embeddings the embedding is the head") {
  const TinyModel files({.tied = true});
  ModelRunner runner(files.dir(), DType::kF32);
  CHECK(runner.weights.output.data == runner.weights.embedding.data);
  CHECK_FALSE(runner.model.checkpoint.contains("lm_head.weight"));
}

TEST_CASE("a step takes the scratch memory that scratch_bytes() says") {
  const TinyModel files({.hidden = 20, .heads = 3, .kv_heads = 1, .head_dim = 6, .vocab = 33});
  const OpenedModel model = open_model(files.dir());
  for (DType activation : {DType::kF32, DType::kBF16}) {
    for (const auto& [tokens, logits] : {std::pair{1, 1}, {7, 0}, {50, 3}, {300, 300}}) {
      CountingSteps steps;
      steps.activation = activation;
      IdleArithmetic ops;
      const auto cpu = make_cpu_ops({});
      const Weights weights = load_weights(model, DType::kF32, cpu->memory());
      std::vector<KvLayer> cache(model.spec.layers.size());
      BatchView batch = {};
      batch.tokens.rows = tokens;
      batch.logit_tokens.rows = logits;
      CHECK(forward(model.spec, weights, cache, batch, steps, *ops).rows == logits);
      CHECK(steps.bytes ==
            scratch_bytes(model.spec, activation, (*ops).fuses_gate(), tokens, logits));
    }
  }
  // (tokens, 20) x 3, (tokens, 18) x 2, (tokens, 6) x 2, (tokens, 40) x 3 and the rope table.
  CHECK(scratch_bytes(model.spec, DType::kF32, false, 1, 0) == 4 * (60 + 36 + 12 + 120 + 6));
  CHECK(scratch_bytes(model.spec, DType::kF32, true, 1, 0) == 4 * (60 + 36 + 12 + 6));
  // A row of logits has room for a multiple of 8.
  CHECK(scratch_bytes(model.spec, DType::kF32, false, 0, 1) == 4 * (40 + 40));
}

TEST_CASE("what is multiplied becomes int8, and takes no memory beside that") {
  for (const bool tied : {false, true}) {
    for (const DType stored : {DType::kF32, DType::kBF16, DType::kF16}) {
      const TinyModel files({.layers = 2, .dtype = stored, .tied = tied});
      ModelRunner runner(files.dir(), DType::kBF16, available_isas().back(), 2,
                         WeightSource::kFiles, {}, Quantization::kInt8);
      const Weights& w = runner.weights;
      CHECK(w.output.dtype == DType::kI8);
      // An embedding that is only looked up stays as it would be.
      CHECK(w.embedding.dtype == (tied ? DType::kI8 : DType::kBF16));
      CHECK((w.embedding.data == w.output.data) == tied);
      int64_t packed = runner.ops->memory().matrix_bytes(w.output, DType::kI8);
      for (const LayerWeights& layer : w.layers) {
        for (const Tensor& matrix :
             {layer.q, layer.k, layer.v, layer.attention_out, layer.gate, layer.up, layer.down}) {
          CHECK(matrix.dtype == DType::kI8);
          packed += runner.ops->memory().matrix_bytes(matrix, DType::kI8);
        }
        CHECK(layer.attention_norm.dtype == DType::kF32);
      }
      const WeightBytes bytes =
          weight_bytes(runner.model, DType::kBF16, runner.ops->memory(), Quantization::kInt8);
      CHECK(bytes.copied == runner.ops->memory().held_bytes());
      const int64_t norms = int64_t{24} * 5, embedding = tied ? 0 : int64_t{61} * 24;
      CHECK(bytes.mapped == (norms + embedding) * size_of(stored));
      CHECK(bytes.copied == packed + (stored == DType::kF32 ? 0 : 4 * norms) +
                                (stored == DType::kBF16 ? 0 : 2 * embedding));
    }
  }
}

TEST_CASE("no weight is copied unless it is converted") {
  for (const DType stored : {DType::kF32, DType::kBF16, DType::kF16}) {
    const TinyModel files({.layers = 3, .dtype = stored, .family = tiny_gemma3(4, 3)});
    for (const DType compute : {DType::kF32, DType::kBF16}) {
      ModelRunner runner(files.dir(), compute);
      const OpenedModel& model = runner.model;
      CHECK(file_dtype(model) == stored);
      const auto is_view = [&](const Tensor& tensor, const std::string& name) {
        return tensor.data == model.checkpoint.tensor(name, tensor.rows, tensor.cols).data;
      };
      const bool views = compute == DType::kF32 || stored == DType::kBF16;
      const Weights& w = runner.weights;
      CHECK(is_view(w.embedding, model.names.embedding) == views);
      CHECK(is_view(w.output, model.names.output) == views);
      CHECK(is_view(w.layers[2].down, model.names.layers[2].down) == views);
      CHECK(is_view(w.final_norm, model.names.final_norm) == (stored == DType::kF32));

      const int norms = 24 * (4 * 3 + 1) + 8 * 2 * 3;
      const int matrices = 3 * (24 * 32 * 2 + 24 * 16 * 2 + 3 * 24 * 40) + 2 * 61 * 24;
      int64_t expected = size_of(stored) * (norms + matrices);
      if (stored != DType::kF32) expected += 4 * norms;
      if (!views) expected += 2 * matrices;
      CHECK(weight_bytes(model, compute, runner.ops->memory()).total() == expected);
    }
  }
}
