// What a configuration takes from the metadata and tensors of a GGUF file.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "io/gguf_file.h"
#include "model/gguf/gguf_config.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/support.h"

namespace pagedinfer {
namespace {

constexpr uint32_t kF32 = 0;

std::string bytes_of(const std::vector<float>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
}

// A model of two heads of `head_dim`, 8 channels and 3 tokens.
GgufWriter model_of(const std::string& architecture, uint32_t layers, uint32_t head_dim,
                    bool has_epsilon = true) {
  GgufWriter writer;
  writer.text("general.architecture", architecture);
  writer.number(architecture + ".block_count", layers);
  writer.number(architecture + ".embedding_length", 8);
  writer.number(architecture + ".attention.head_count", 2);
  writer.number(architecture + ".attention.key_length", head_dim);
  writer.number(architecture + ".context_length", 64);
  if (has_epsilon) writer.real(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
  writer.tensor("token_embd.weight", kF32, {3, 8}, std::string(96, '\0'));
  return writer;
}

std::string config_of(const GgufWriter& writer) {
  const TempDir dir;
  write_file(dir / "m.gguf", writer.file());
  return gguf_config(GgufFile(dir / "m.gguf"));
}

bool holds(const std::string& text, const std::string& part) {
  CAPTURE(text);
  return text.find(part) != text.npos;
}

}  // namespace

TEST_CASE("a GGUF file's factors of rope for short and for long runs keep their places") {
  GgufWriter writer = model_of("phi3", 1, 8);
  writer.number("phi3.rope.scaling.original_context_length", 32);
  writer.real("phi3.rope.scaling.attn_factor", 1.5f);
  writer.tensor("rope_factors_long.weight", kF32, {4}, bytes_of({5, 6, 7, 8}));
  writer.tensor("rope_factors_short.weight", kF32, {4}, bytes_of({1, 2, 3, 4}));
  const std::string config = config_of(writer);
  CHECK(holds(config, R"("rope_type":"longrope")"));
  CHECK(holds(config, R"("short_factor":[1,2,3,4])"));
  CHECK(holds(config, R"("long_factor":[5,6,7,8])"));
  CHECK(holds(config, R"("attention_factor":1.5)"));
  CHECK(holds(config, R"("original_max_position_embeddings":32)"));
  // The factors of Llama 3 are the same in every run.
  const std::string llama = config_of(
      model_of("llama", 1, 8).tensor("rope_freqs.weight", kF32, {4}, bytes_of({1, 2, 3, 4})));
  CHECK(holds(llama, R"("short_factor":[1,2,3,4])"));
  CHECK(holds(llama, R"("long_factor":[1,2,3,4])"));
}

TEST_CASE("the scores of the largest Gemma 2 and 3 have the scale of their width") {
  const auto scale = [](const std::string& architecture, uint32_t layers) {
    const std::string config = config_of(model_of(architecture, layers, 8));
    constexpr std::string_view kKey = "\"query_pre_attn_scalar\":";
    return std::stod(config.substr(config.find(kKey) + kKey.size()));
  };
  for (const uint32_t layers : {26u, 42u, 45u, 47u, 62u}) CHECK(scale("gemma2", layers) == 8);
  for (const uint32_t layers : {26u, 34u, 46u, 48u, 61u, 63u}) CHECK(scale("gemma3", layers) == 8);
  CHECK(scale("gemma2", 46) == 4);
  CHECK(scale("gemma3", 62) == 4);
}

TEST_CASE("a GGUF file says how many channels of a head are rotated") {
  const auto rotating = [](uint32_t count) {
    return config_of(model_of("glm4", 1, 8).number("glm4.rope.dimension_count", count));
  };
  CHECK(holds(rotating(8), R"("partial_rotary_factor":1)"));
  CHECK(holds(rotating(4), R"("partial_rotary_factor":0.5)"));
  CHECK(!holds(config_of(model_of("glm4", 1, 8)), "partial_rotary_factor"));
  CHECK_THROWS_WITH(rotating(16),
                    doctest::Contains("glm4.rope.dimension_count: found 16, expected at most 8"));
}

TEST_CASE("a GGUF file without an epsilon, or with values of another length, is refused") {
  CHECK_THROWS_WITH(config_of(model_of("llama", 1, 8, false)),
                    doctest::Contains("llama.attention.layer_norm_rms_epsilon: "
                                      "found nothing, expected a number"));
  CHECK_THROWS_WITH(
      config_of(model_of("llama", 1, 8).number("llama.attention.value_length", 4)),
      doctest::Contains("llama.attention.value_length: found 4, expected 8, the length of keys"));
  CHECK(config_of(model_of("llama", 1, 8).number("llama.attention.value_length", 8)) ==
        config_of(model_of("llama", 1, 8)));
}

TEST_CASE("a tensor of a type that is not read is named") {
  GgufWriter writer = model_of("llama", 1, 8);
  writer.tensor("odd", 16, {256}, std::string(66, '\0'));
  CHECK_THROWS_WITH(config_of(writer),
                    doctest::Contains("m.gguf: the type of tensor 'odd': found IQ2_XXS, expected "
                                      "F32, F16, BF16, Q4_0"));
}

}  // namespace pagedinfer
