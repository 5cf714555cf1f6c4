#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "model/dummy.h"
#include "model/needed_tensors.h"
#include "tests/support/model_runner.h"
#include "tests/support/ops_support.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

template <class T>
std::vector<T> filled(const std::string& name, DType type, int64_t rows, int64_t cols) {
  std::vector<T> values(static_cast<size_t>(rows * cols) + 1);
  fill_dummy(name, {0.5f, 0.75f}, {values.data(), type, rows, cols, cols});
  CHECK(values.back() == T{});  // the element after the tensor is not written
  values.pop_back();
  return values;
}

// The definition, an element at a time.
float dummy_at(const std::string& name, uint64_t index) {
  uint64_t seed = 0xcbf29ce484222325;
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  Random random = {seed + index / 8 * 0x9e3779b97f4a7c15};
  const auto byte = static_cast<int>(random.bits() >> index % 8 * 8 & 255);
  const float value = 0.5f + (static_cast<float>(2 * byte - 255) / 256.0f) * 0.75f;
  const uint32_t bits = bits_of(value);
  return from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

}  // namespace

TEST_CASE("a dummy weight depends on its tensor's name and its index only") {
  for (const int64_t cols : {1, 5, 8, 64, 1001}) {
    const auto wide = filled<float>("a.weight", DType::kF32, 3, cols);
    for (size_t i = 0; i < wide.size(); ++i) REQUIRE(wide[i] == dummy_at("a.weight", i));
    CHECK(filled<float>("a.weight", DType::kF32, 3 * cols, 1) == wide);
    if (cols > 8) CHECK(filled<float>("b.weight", DType::kF32, 3, cols) != wide);
  }
}

TEST_CASE("dummy weights are the same numbers in every type") {
  const auto wide = filled<float>("x", DType::kF32, 7, 100);
  const auto bf16s = filled<uint16_t>("x", DType::kBF16, 7, 100);
  const auto f16s = filled<uint16_t>("x", DType::kF16, 7, 100);
  for (size_t i = 0; i < wide.size(); ++i) {
    CHECK(widen({bf16s[i]}) == wide[i]);
    const int exponent = (f16s[i] >> 10 & 31) - 15, mantissa = f16s[i] & 1023;
    const float magnitude = std::ldexp(1.0f + static_cast<float>(mantissa) / 1024.0f, exponent);
    CHECK((f16s[i] & 0x8000 ? -magnitude : magnitude) == wide[i]);
  }
}

TEST_CASE("config.json alone makes a model that computes") {
  TempDir dir;
  const std::string config = R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 32,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "intermediate_size": 48, "vocab_size": 50, "max_position_embeddings": 64, "dtype": "TYPE"})";
  std::vector<std::vector<float>> rows;
  for (const std::string type : {"float32", "bfloat16", "float16", "none"}) {
    std::string text = config;
    text.replace(text.find("TYPE"), 4, type);
    write_file(dir / "config.json", text);
    ModelRunner runner(dir.path(), DType::kF32, available_isas().back(), 1, WeightSource::kDummy);
    CHECK(runner.model.is_dummy);
    CHECK(name_of(file_dtype(runner.model)) == (type == "none" ? "bfloat16" : type));
    runner.start(8);
    rows.push_back(runner.run({1, 2, 3, 49}, {3})[0]);
    for (const float logit : rows.back()) CHECK(std::isfinite(logit));
    CHECK(rows.back() == rows.front());  // the weights are the same numbers
  }
  CHECK_THROWS_AS(open_model(dir.path()), Error);
}

TEST_CASE("shapes that no memory holds are refused") {
  TempDir dir;
  write_file(dir / "config.json", R"({"architectures": ["LlamaForCausalLM"],
      "hidden_size": 16777216, "num_hidden_layers": 4096, "num_attention_heads": 16777216,
      "head_dim": 2, "intermediate_size": 16777216, "vocab_size": 16777216})");
  CHECK_THROWS_AS(open_model(dir.path(), WeightSource::kDummy), Error);
  write_file(dir / "config.json", R"({"architectures": ["LlamaForCausalLM"],
      "hidden_size": 16777216, "num_hidden_layers": 4096, "num_attention_heads": 8388608,
      "head_dim": 2, "intermediate_size": 16777216, "vocab_size": 16777216})");
  try {
    (void)open_model(dir.path(), WeightSource::kDummy);
    CHECK(false);
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("too large") != std::string::npos);
  }
}

TEST_CASE("the configs of real models ask for as many weights as these models have") {
  const std::pair<const char*, int64_t> models[] = {{"llama-3.1-8b-instruct", 8030261248},
                                                    {"llama-3.2-3b-instruct", 3212749824},
                                                    {"qwen3-4b", 4022468096},
                                                    {"qwen3-30b-a3b", 30532122624},
                                                    {"gemma-3-1b-it", 999885952}};
  for (const auto& [name, expected] : models) {
    CAPTURE(name);
    const std::string dir = source_dir() + "/datasets/configs/" + name;
    const OpenedModel model = open_model(dir, WeightSource::kDummy);
    int64_t count = 0;
    for (const auto& tensor : needed_tensors(model.spec, model.names)) {
      count += tensor.rows * tensor.cols;
    }
    CHECK(count == expected);
    CHECK(model.spec.eos_tokens.size() == (name[0] == 'q' ? 1 : name[0] == 'l' ? 3 : 2));
  }
}
