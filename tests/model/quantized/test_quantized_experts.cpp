// Experts of quantized checkpoints, where their numbers or types are unusual.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "model/inspect.h"
#include "tests/support/changed_checkpoint.h"
#include "tests/support/model_runner.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

// The logits after each of 40 tokens.
std::vector<std::vector<float>> logits_of_checkpoint(const std::string& dir, DType compute,
                                                     Quantization quantize) {
  ModelRunner runner(dir, compute, available_isas().back(), 1, WeightSource::kFiles, {}, quantize);
  std::vector<TokenId> tokens(40);
  std::iota(tokens.begin(), tokens.end(), 0);
  runner.start(40);
  return runner.run(tokens, {tokens.begin(), tokens.end()});
}

}  // namespace

TEST_CASE("a power of two of MXFP4 that is NaN reaches the tokens of its expert, and no others") {
  const std::string original = source_dir() + "/tests/data/quantized/mxfp4-experts";
  const TempDir dir;
  std::filesystem::copy_file(original + "/config.json", dir / "config.json");
  const Entries entries = read_entries(original);
  for (const char* const matrix : {"gate_up_proj", "down_proj"}) {
    CAPTURE(matrix);
    Entries changed = entries;
    // Of the last layer, so that no other token attends to the NaN.
    Entry& scales = changed[fmt::format("model.layers.1.mlp.experts.{}_scales", matrix)];
    const int64_t of_expert = scales.shape[1] * scales.shape[2];
    scales.bytes[static_cast<size_t>(3 * of_expert + 1)] = '\xff';  // a group of expert 3
    write_file(dir / "model.safetensors", safetensors_of(changed));
    for (const auto& [compute, quantize] : {std::pair(DType::kF32, Quantization::kNone),
                                            {DType::kBF16, Quantization::kNone},
                                            {DType::kBF16, Quantization::kCodes},
                                            {DType::kBF16, Quantization::kInt8}}) {
      CAPTURE(name_of(compute));
      const auto before = logits_of_checkpoint(original, compute, quantize);
      const auto after = logits_of_checkpoint(dir.path(), compute, quantize);
      int num_lost = 0, num_kept = 0;
      for (size_t i = 0; i < before.size(); ++i) {
        const bool is_lost = std::ranges::all_of(after[i], [](float x) { return std::isnan(x); });
        CHECK((is_lost || after[i] == before[i]));
        ++(is_lost ? num_lost : num_kept);
      }
      CHECK(num_lost > 5);
      CHECK(num_kept > 5);
    }
  }
}

TEST_CASE("an expert of which one matrix alone is quantized has gate and up in one type") {
  const std::string original = source_dir() + "/tests/data/quantized/gptq-4-experts";
  for (const char* const plain : {"gate_proj", "up_proj"}) {
    CAPTURE(plain);
    const TempDir dir;
    std::filesystem::copy_file(original + "/config.json", dir / "config.json");
    Entries entries = read_entries(original);
    const std::string module = fmt::format("model.layers.0.mlp.experts.2.{}.", plain);
    std::erase_if(entries, [&](const auto& entry) { return entry.first.starts_with(module); });
    entries[module + "weight"] = {"F16", {32, 64}, std::string(32 * 64 * 2, '\x2a')};
    write_file(dir / "model.safetensors", safetensors_of(entries));
    for (const auto& [compute, quantize] : {std::pair(DType::kF32, Quantization::kNone),
                                            {DType::kBF16, Quantization::kNone},
                                            {DType::kBF16, Quantization::kCodes},
                                            {DType::kBF16, Quantization::kInt8},
                                            {DType::kBF16, Quantization::kInt4}}) {
      CAPTURE(name_of(compute));
      const OpenedModel model = open_model(dir.path());
      const auto ops = make_cpu_ops({.compute = compute});
      const Weights weights = load_weights(model, compute, ops->memory(), quantize);
      for (const Expert& expert : weights.layers[0].experts) {
        CHECK(expert.gate.dtype == expert.up.dtype);
      }
      for (const std::vector<float>& row : logits_of_checkpoint(dir.path(), compute, quantize)) {
        CHECK(std::ranges::all_of(row, [](float logit) { return std::isfinite(logit); }));
      }
    }
  }
}

TEST_CASE("quantized experts of a Qwen 3 VL MoE may have tensors of their own") {
  const std::string original = source_dir() + "/tests/data/quantized/gptq-4-experts";
  const TempDir dir;
  std::string text = read_file(original + "/config.json");
  text.insert(text.find('{') + 1, R"("rope_theta": 10000.0,)");  // the other default
  write_file(dir / "config.json",
             fmt::format(R"({{"architectures": ["Qwen3VLMoeForConditionalGeneration"],
                 "quantization_config": {{"quant_method": "gptq", "bits": 4, "group_size": 32,
                 "sym": false}}, "text_config": {}}})",
                         text));
  Entries entries;
  for (const auto& [name, entry] : read_entries(original)) {
    const bool is_inside = name.starts_with("model.");
    entries[is_inside ? "model.language_model" + name.substr(5) : name] = entry;
  }
  write_file(dir / "model.safetensors", safetensors_of(entries));
  for (const Quantization quantize : {Quantization::kNone, Quantization::kCodes}) {
    CHECK(logits_of_checkpoint(dir.path(), DType::kBF16, quantize) ==
          logits_of_checkpoint(original, DType::kBF16, quantize));
  }
  Problems problems;
  static_cast<void>(inspect_model(dir.path(), WeightSource::kFiles, problems));
  CHECK(problems.all().empty());
}
