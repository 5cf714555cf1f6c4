// Tiny quantized checkpoints of every kind against values and logits that
// tools/goldens/make_quantized_goldens.py has computed from the formats' definitions.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/float16.h"
#include "io/json_file.h"
#include "model/model.h"
#include "ops/code_source.h"
#include "tests/support/bits_hash.h"
#include "tests/support/changed_checkpoint.h"
#include "tests/support/golden_rows.h"
#include "tests/support/model_runner.h"
#include "tests/support/replayed_choices.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

using simdjson::dom::element;

// Calls visit(directory, its golden.json) for every model.
template <class Visit>
void for_each_quantized(const Visit& visit) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir() + "/tests/data/quantized")) {
    const std::string dir = entry.path();
    INFO(dir);
    simdjson::dom::parser parser;
    visit(dir, parser.load(dir + "/golden.json"));
    ++count;
  }
  CHECK(count >= 20);
}

std::string hash_of(const std::vector<float>& values, DType type) {
  BitsHash hash;
  for (const float value : values) {
    hash.add(type == DType::kF32 ? std::bit_cast<uint32_t>(value) : to_bf16(value));
  }
  return std::to_string(hash.value);
}

std::vector<float> read_rows(const RowSource& source, int64_t rows_at_once) {
  std::vector<float> values(static_cast<size_t>(source.rows * source.cols));
  for (int64_t first = 0; first < source.rows; first += rows_at_once) {
    source.read(first, std::min(rows_at_once, source.rows - first),
                values.data() + first * source.cols);
  }
  return values;
}

// The experts in each tensor of experts; 0: they have tensors of their own.
int64_t num_stacked(const OpenedModel& model) {
  return model.names.expert_storage == ExpertStorage::kEach ? 0 : model.spec.experts.count;
}

MatrixSize size_of(const OpenedModel& model, const std::string& name, element shape) {
  const auto sizes = ints(shape);
  const bool is_of_experts = name.find(".experts.") != std::string::npos;
  return {sizes[0], sizes[1], is_of_experts ? num_stacked(model) : 0};
}

void check_values(const OpenedModel& model, element golden) {
  int num_matrices = 0;
  for (const auto field : golden["matrices"].get_object()) {
    const std::string name(field.key);
    CAPTURE(name);
    CHECK(model.quantized.has(model.checkpoint, name));
    const RowSource source =
        model.quantized.open(model.checkpoint, name, size_of(model, name, field.value["shape"]));
    for (const int rows_at_once : {16, 1, 7, 1000}) {
      const std::vector<float> values = read_rows(source, rows_at_once);
      CHECK(hash_of(values, DType::kF32) == std::string(field.value["float32"]));
      CHECK(hash_of(values, DType::kBF16) == std::string(field.value["bfloat16"]));
    }
    ++num_matrices;
  }
  CHECK(num_matrices >= 4);
}

// One of the matrices that every checkpoint quantizes.
const Tensor& a_down(const Weights& weights) {
  const LayerWeights& layer = weights.layers[0];
  return layer.experts.empty() ? layer.down : layer.experts[0].down;
}

// Checks the values of a checkpoint whose config.json says the same in other words.
void check_values_with(const std::string& name, const std::string& from, const std::string& to) {
  const TempDir dir;
  copy_changed(name, from, to, dir.path());
  simdjson::dom::parser parser;
  check_values(open_model(dir.path()),
               parser.load(source_dir() + "/tests/data/quantized/" + name + "/golden.json"));
}

}  // namespace

TEST_CASE("every quantized matrix has the values that its format defines") {
  for_each_quantized([](const std::string& dir, element golden) {
    const OpenedModel model = open_model(dir);
    CHECK_FALSE(model.quantized.description().empty());
    check_values(model, golden);
    CHECK(model.weight_notes == model.quantized.notes());
    CHECK_FALSE(model.quantized.has(model.checkpoint, model.names.embedding));
    CHECK_FALSE(model.quantized.has(model.checkpoint, model.names.final_norm));
  });
}

TEST_CASE("float32 logits of every quantized checkpoint are the reference's") {
  for_each_quantized([](const std::string& dir, element golden) {
    ModelRunner runner(dir, DType::kF32);
    float worst = 0.0f;
    for (const element sequence : golden["sequences"]) {
      worst = std::max(worst, float32_error(runner, sequence));
    }
    CHECK(worst <= 1e-4f);
    MESSAGE(fmt::format("largest difference {:.1e} of the largest logit", worst));
  });
}

TEST_CASE("bfloat16 logits of every quantized checkpoint are as close as the reference's") {
  for_each_quantized([](const std::string& dir, element golden) {
    ModelRunner runner(dir, DType::kBF16);
    float ours = 0.0f, theirs = 0.0f;
    for (const element sequence : golden["sequences"]) {
      const auto rows = rows_of(runner, sequence);
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto exact = floats(sequence["float32"].at(i));
        ours = std::max(ours, largest_difference(rows[i], exact));
        theirs = std::max(theirs, largest_difference(floats(sequence["bfloat16"].at(i)), exact));
      }
    }
    CHECK(ours <= 1.5f * theirs);
    MESSAGE(fmt::format("largest error {:.4f}, the reference's {:.4f}", ours, theirs));
  });
}

TEST_CASE("the plan counts the memory that quantized matrices take as what they become") {
  for_each_quantized([](const std::string& dir, element golden) {
    int64_t numbers = 0;
    for (const auto field : golden["matrices"].get_object()) {
      const auto shape = ints(field.value["shape"]);
      numbers += int64_t{shape[0]} * shape[1];
    }
    for (const auto& [compute, dequantized, size] : {std::tuple(DType::kF32, DType::kF32, 4),
                                                     {DType::kF32, DType::kF16, 2},
                                                     {DType::kBF16, DType::kBF16, 2}}) {
      const OpenedModel model = open_model(dir);
      const auto ops = make_cpu_ops({.compute = compute});
      const WeightBytes planned =
          weight_bytes(model, compute, ops->memory(), Quantization::kNone, dequantized);
      const Weights weights =
          load_weights(model, compute, ops->memory(), Quantization::kNone, dequantized);
      CHECK(a_down(weights).dtype == dequantized);
      int64_t ropes = 0;  // a few numbers, which no plan counts
      for (const RopeWeights& rope : weights.ropes) ropes += rope.used.bytes();
      CHECK(planned.copied >= numbers * size);
      CHECK(ops->memory().held_bytes() <= planned.copied + ropes);
      CHECK(ops->memory().held_bytes() >= planned.copied);
    }
  });
}

TEST_CASE("quantized matrices become int8 without being rounded in between") {
  for_each_quantized([](const std::string& dir, element) {
    const OpenedModel model = open_model(dir);
    const auto ops = make_cpu_ops({.compute = DType::kBF16});
    const Weights weights = load_weights(model, DType::kBF16, ops->memory(), Quantization::kInt8);
    const Tensor& found = a_down(weights);
    REQUIRE(found.dtype == DType::kI8);
    const LayerNames& names = model.names.layers[0];
    const int64_t stacked = num_stacked(model);
    const RowSource source = model.quantized.open(
        model.checkpoint, names.experts.empty() ? names.down : names.experts[0].down,
        {found.rows * std::max<int64_t>(1, stacked), found.cols, stacked});
    std::vector<float> values = read_rows(source, 16);
    values.resize(static_cast<size_t>(found.rows * found.cols));
    const Tensor expected = ops->memory().upload_matrix(
        Tensor{values.data(), DType::kF32, found.rows, found.cols, found.cols}, DType::kI8);
    CHECK(std::memcmp(found.data, expected.data,
                      static_cast<size_t>(ops->memory().matrix_bytes(expected, DType::kI8))) == 0);
  });
}

TEST_CASE("codes of 4 bits stay what the checkpoint has") {
  std::map<std::string, int> kept;  // by checkpoint
  for_each_quantized([&](const std::string& dir, element golden) {
    const OpenedModel model = open_model(dir);
    for (const auto field : golden["matrices"].get_object()) {
      const std::string name(field.key);
      const auto codes = model.quantized.open_codes(model.checkpoint, name,
                                                    size_of(model, name, field.value["shape"]));
      if (!codes) continue;
      CAPTURE(field.key);
      CHECK(hash_of(read_rows(dequantized(*codes), 7), DType::kF32) ==
            std::string(field.value["float32"]));
      ++kept[dir.substr(dir.rfind('/') + 1)];
    }
  });
  // Groups of 8, 16, 20 and 24 columns are dequantized.
  for (const char* const name :
       {"gptq-4-fused", "gptq-4-order-groups", "gptq-4-experts", "gptq-4-order-experts",
        "awq-fused", "awq-groups", "awq-experts", "ct-packed-4-groups", "mxfp4-experts"}) {
    CHECK_MESSAGE(kept[name] >= 4, name);
    kept.erase(name);
  }
  for (const auto& [name, count] : kept) CHECK_MESSAGE(count == 0, name);
}

TEST_CASE("a model in the checkpoint's 4 bits loses what int8 inputs lose, and fits its plan") {
  int num_models = 0;
  for_each_quantized([&](const std::string& dir, element golden) {
    const OpenedModel model = open_model(dir);
    const auto ops = make_cpu_ops({.compute = DType::kBF16});
    const WeightBytes planned =
        weight_bytes(model, DType::kBF16, ops->memory(), Quantization::kCodes);
    const Weights weights = load_weights(model, DType::kBF16, ops->memory(), Quantization::kCodes);
    int64_t ropes = 0;  // a few numbers, which no plan counts
    for (const RopeWeights& rope : weights.ropes) ropes += rope.used.bytes();
    CHECK(ops->memory().held_bytes() <= planned.copied + ropes);
    CHECK(ops->memory().held_bytes() >= planned.copied);
    if (a_down(weights).dtype != DType::kI4) return;
    ++num_models;
    const RecordedChoices choices = choices_of(ModelRunner(dir, DType::kF32), golden["sequences"]);
    const auto error_of = [&](Quantization quantize) {
      ModelRunner runner(dir, DType::kBF16, available_isas().back(), 1, WeightSource::kFiles, {},
                         quantize);
      ChoiceReplay replay(*runner.arithmetic, choices);
      runner.arithmetic = &replay;
      float error = 0.0f;
      for (const element sequence : golden["sequences"]) {
        const auto rows = rows_of(runner, sequence);
        for (size_t i = 0; i < rows.size(); ++i) {
          error = std::max(error, largest_difference(rows[i], floats(sequence["float32"].at(i))));
        }
      }
      return error;
    };
    const float codes = error_of(Quantization::kCodes), int8 = error_of(Quantization::kInt8);
    MESSAGE(fmt::format("largest error {:.4f}, with weights in int8 {:.4f}", codes, int8));
    CHECK(codes <= 1.5f * int8);
  });
  CHECK(num_models >= 8);
}

TEST_CASE("a group of embeddings leaves the linear modules to the group behind it") {
  check_values_with("ct-packed-4-zeros", R"("config_groups": {)",
                    R"("config_groups": {"of_embeddings": {"targets": ["Embedding"], "weights":
                        {"num_bits": 8, "type": "int", "strategy": "channel"}},)");
}

TEST_CASE("blocks of fp8 are of 128 x 128 where config.json does not say it") {
  check_values_with("fp8-blocks", "weight_block_size", "block_size");
}

TEST_CASE("how a checkpoint is quantized is told in words, where nothing is too") {
  const auto description = [](const std::string& groups) {
    const JsonFile config(
        "config.json",
        fmt::format(R"({{"quantization_config": {{"quant_method": "compressed-tensors",
                         "format": "int-quantized", "config_groups": {}}}}})",
                    groups));
    return QuantizedWeights(config.root()).description();
  };
  CHECK(description("{}") == "compressed-tensors");
  CHECK(description(R"({"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8}}})") ==
        "compressed-tensors, 8 bits, one scale");
}

TEST_CASE("only codes whose scales are of single rows are said to be kept") {
  const auto keeps = [](const std::string& weights) {
    const JsonFile config(
        "config.json",
        fmt::format(R"({{"quantization_config": {{"quant_method": "compressed-tensors",
                         "format": "pack-quantized", "config_groups": {{"group_0":
                         {{"targets": ["Linear"], "weights": {{"num_bits": 4, {}}}}}}}}}}})",
                    weights));
    return QuantizedWeights(config.root()).has_codes();
  };
  CHECK(keeps(R"("strategy": "channel")"));
  CHECK(keeps(R"("strategy": "group", "group_size": 32)"));
  CHECK_FALSE(keeps(R"("strategy": "group", "group_size": 24)"));
  CHECK_FALSE(keeps(R"("strategy": "tensor")"));
  CHECK_FALSE(keeps(R"("strategy": "block", "block_structure": [16, 32])"));
}

TEST_CASE("a run takes the type that config.json's floats have") {
  for_each_quantized([](const std::string& dir, element) {
    const OpenedModel model = open_model(dir);
    const std::string config = read_file(dir + "/config.json");
    const bool is_half = config.find("\"bfloat16\"") == std::string::npos;
    CHECK(file_dtype(model) == (is_half ? DType::kF16 : DType::kBF16));
  });
}
