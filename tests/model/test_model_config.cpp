#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include "core/error.h"
#include "model/families.h"
#include "model/rope_frequencies.h"
#include "model/rope_scaling.h"
#include "tests/support/support.h"
#include "tests/support/tiny_model.h"

using namespace pagedinfer;

namespace {

using Fields = std::map<std::string, std::string>;  // to JSON text; "" leaves a field out

std::string to_json(const Fields& fields) {
  std::string text;
  for (const auto& [key, value] : fields) {
    if (!value.empty()) text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", key, value);
  }
  return "{" + text + "}";
}

Fields changed(Fields fields, const Fields& changes) {
  for (const auto& [key, value] : changes) fields[key] = value;
  return fields;
}

const Fields kSmall = {{"architectures", R"(["LlamaForCausalLM"])"},
                       {"model_type", "\"llama\""},
                       {"hidden_size", "24"},
                       {"num_hidden_layers", "2"},
                       {"num_attention_heads", "4"},
                       {"num_key_value_heads", "2"},
                       {"head_dim", "8"},
                       {"intermediate_size", "40"},
                       {"vocab_size", "61"},
                       {"max_position_embeddings", "256"},
                       {"rms_norm_eps", "1e-5"}};

// What open_model() makes of config.json with some fields changed.
OpenedModel opened(const Fields& changes, const std::string& generation = "") {
  const TinyModel files;
  write_file(files.dir() + "/config.json", to_json(changed(kSmall, changes)));
  if (!generation.empty()) write_file(files.dir() + "/generation_config.json", generation);
  return open_model(files.dir());
}

std::string refusal(const Fields& changes, const std::string& generation = "") {
  try {
    (void)opened(changes, generation);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// The rope of a model with heads of `head_dim` channels and 1024 positions.
ModelSpec with_rope(const std::string& config, int head_dim, const RopeDefaults& defaults = {}) {
  simdjson::dom::parser parser;
  const simdjson::dom::object object = parser.parse(config);
  ModelSpec spec = {.max_positions = 1024, .head_dim = head_dim};
  read_rope(JsonObject("config.json", "", object), defaults, spec);
  return spec;
}

std::vector<float> frequencies(const std::string& config, int head_dim) {
  return with_rope(config, head_dim).ropes.front().inv_freq;
}

}  // namespace

// The constants are transformers 5.23.0's with torch 2.13.0 on the CPU.
TEST_CASE("rope frequencies are the reference's, bit for bit") {
  const auto llama3 = frequencies(R"({"rope_theta": 500000.0, "rope_scaling": {"factor": 32.0,
      "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_type": "llama3",
      "original_max_position_embeddings": 8192}})",
                                  128);
  REQUIRE(llama3.size() == 64);
  for (const auto& [i, value] : std::map<size_t, float>{{0, 0x1.000000p+0f},
                                                        {1, 0x1.a11582p-1f},
                                                        {20, 0x1.0f5386p-6f},
                                                        {28, 0x1.a4ee40p-9f},
                                                        {29, 0x1.15a9f0p-9f},
                                                        {30, 0x1.524f36p-10f},
                                                        {32, 0x1.c26c40p-12f},
                                                        {34, 0x1.9731eep-14f},
                                                        {35, 0x1.90d10cp-16f},
                                                        {50, 0x1.280d96p-20f},
                                                        {63, 0x1.4985fep-24f}}) {
    CHECK(llama3[i] == value);
  }
  const auto linear = frequencies(
      R"({"rope_parameters": {"rope_theta": 10000, "rope_type": "linear", "factor": 3}})", 128);
  for (const auto& [i, value] : std::map<size_t, float>{
           {0, 0x1.555556p-2f}, {1, 0x1.27951ep-2f}, {17, 0x1.d8ee96p-6f}, {63, 0x1.42e682p-15f}}) {
    CHECK(linear[i] == value);
  }
  CHECK(frequencies("{}", 32) ==
        std::vector<float>{0x1.000000p+0f, 0x1.1feb34p-1f, 0x1.43d136p-2f, 0x1.6c310ep-3f,
                           0x1.99999ap-4f, 0x1.ccab84p-5f, 0x1.030dc6p-5f, 0x1.235a72p-6f,
                           0x1.47ae14p-7f, 0x1.708938p-8f, 0x1.9e7c70p-9f, 0x1.d22a50p-10f,
                           0x1.0624dep-10f, 0x1.26d42cp-11f, 0x1.4b96c0p-12f, 0x1.74eea6p-13f});
}

TEST_CASE("rope frequencies are within a rounding of a library's powers") {
  for (double base : {2.0, 10000.0, 500000.0, 1e6, 1e12}) {
    for (int head_dim : {2, 4, 6, 64, 80, 96, 128, 256}) {
      const auto ours = default_frequencies(base, head_dim);
      REQUIRE(ours.size() == static_cast<size_t>(head_dim) / 2);
      for (size_t i = 0; i < ours.size(); ++i) {
        const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
        const double exact = std::pow(double{static_cast<float>(base)}, -double{exponent});
        CHECK(std::abs(ours[i] - exact) <= 1.2e-7 * exact);  // two roundings
      }
    }
  }
}

TEST_CASE("a run's length chooses the frequencies of longrope and of dynamic") {
  const ModelSpec longrope = with_rope(R"({"rope_theta": 100, "rope_scaling": {"type": "su",
      "short_factor": [1, 2], "long_factor": [4, 8]}})",
                                       4, {.trained_positions = 512, .only_longrope = true});
  const RopeSpec& rope = longrope.ropes.front();
  CHECK(rope.inv_freq == std::vector<float>{1.0f, 0.05f});
  CHECK(rope.long_inv_freq == std::vector<float>{0.25f, 0.0125f});
  CHECK(rope.scale == doctest::Approx(std::sqrt(1 + std::log(2.0) / std::log(512.0))));
  CHECK(rope_length(longrope, 512) == "short");
  CHECK(rope_length(longrope, 513) == "long");
  CHECK(longrope.max_stretched_positions == 0);

  const ModelSpec dynamic =
      with_rope(R"({"rope_theta": 100, "rope_scaling": {"type": "dynamic", "factor": 3}})", 8);
  CHECK(dynamic.ropes.front().inv_freq == default_frequencies(100, 8));
  CHECK(dynamic.ropes.front().long_inv_freq[1] ==
        doctest::Approx(std::pow(100 * std::pow(7.0, 8.0 / 6), -0.25)));
  CHECK(rope_length(dynamic, 1024) == "short");
  CHECK(rope_length(dynamic, 1025) == "long");
  CHECK(dynamic.max_stretched_positions == 3 * 1024);
}

TEST_CASE(
    "yarn is one kind of frequencies for all runs, and allows as long ones as it stretches to") {
  const auto of = [](const std::string& fields) {
    return with_rope(
        R"({"rope_theta": 1e4, "rope_parameters": {"rope_type": "yarn")" + fields + "}}", 32);
  };
  const ModelSpec spec = of(R"(, "factor": 4)");
  CHECK(spec.max_stretched_positions == 4096);
  CHECK(rope_length(spec, 4096) == std::nullopt);
  CHECK(spec.ropes.front().scale == doctest::Approx(0.1 * std::log(4.0) + 1));
  CHECK(spec.ropes.front().inv_freq.front() == 1.0f);
  CHECK(spec.ropes.front().inv_freq.back() ==
        doctest::Approx(default_frequencies(1e4, 32).back() / 4));
  // The extended length may be in config.json already.
  const ModelSpec extended = of(R"(, "factor": 4, "original_max_position_embeddings": 256)");
  CHECK(extended.max_stretched_positions == 0);
  CHECK(of(R"(, "original_max_position_embeddings": 256)").ropes.front().inv_freq ==
        extended.ropes.front().inv_freq);
  CHECK(of(R"(, "factor": 4, "attention_factor": 1.5)").ropes.front().scale == 1.5f);
}

TEST_CASE("sections of a rope for pictures change nothing for text") {
  for (const char* const rope :
       {R"({"type": "mrope", "mrope_section": [2, 1, 1]})",
        R"({"rope_type": "default", "type": "default", "mrope_section": [2, 1, 1]})",
        R"({"rope_type": "default", "mrope_interleaved": true, "mrope_section": [9, 9, 9]})"}) {
    CAPTURE(rope);
    CHECK(frequencies(fmt::format(R"({{"rope_theta": 100, "rope_scaling": {}}})", rope), 8) ==
          default_frequencies(100, 8));
  }
}

TEST_CASE("fields of old and new configs mean the same") {
  const std::string old_form =
      R"({"rope_theta": 7e4, "rope_scaling": {"type": "linear", "factor": 2.0}})";
  const std::string new_form =
      R"({"rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 70000}})";
  CHECK(frequencies(old_form, 16) == frequencies(new_form, 16));
  const std::string plain = R"({"rope_theta": 70000.0, "rope_scaling": null})";
  const std::string named = R"({"rope_parameters": {"rope_type": "default", "rope_theta": 70000}})";
  CHECK(frequencies(plain, 16) == frequencies(named, 16));
  CHECK(frequencies(plain, 16) != frequencies(old_form, 16));
}

TEST_CASE("an absent field has the family's default") {
  const ModelSpec spec =
      opened({{"head_dim", ""}, {"num_key_value_heads", ""}, {"rms_norm_eps", ""}}).spec;
  CHECK(spec.head_dim == 6);
  CHECK(spec.kv_heads == 4);
  CHECK(spec.norm_eps == 1e-6f);
  CHECK_FALSE(spec.tied_embeddings);
  CHECK(spec.eos_tokens == std::vector<TokenId>{2});
  CHECK(opened({{"eos_token_id", "null"}}).spec.eos_tokens.empty());
  CHECK(spec.attention_scale == static_cast<float>(1.0 / std::sqrt(6.0)));
  CHECK(opened({{"architectures", ""}}).spec.layers.size() == 2);
  CHECK(opened({{"head_dim", "null"}}).spec.head_dim == 6);
}

TEST_CASE("an unsupported config is an error that names field and value") {
  struct Case {
    Fields changes;
    std::string field, said;
  };
  const Case cases[] = {
      {{{"architectures", R"(["GPT2LMHeadModel"])"}}, "architectures", "LlamaForCausalLM"},
      {{{"architectures", R"(["GPT2LMHeadModel"])"}}, "architectures", "GPT2LMHeadModel"},
      {{{"architectures", ""}, {"model_type", "\"gpt2\""}}, "model_type", "supported are: llama"},
      {{{"architectures", ""}, {"model_type", ""}}, "model_type", "''"},
      {{{"architectures", "3"}}, "architectures", "found 3"},
      {{{"architectures", "[3]"}}, "architectures", "a list of strings"},
      {{{"hidden_size", "0"}}, "hidden_size", "found 0"},
      {{{"hidden_size", "-24"}}, "hidden_size", "found -24"},
      {{{"hidden_size", "24.5"}}, "hidden_size", "24.5"},
      {{{"hidden_size", "\"24\""}}, "hidden_size", "integer"},
      {{{"hidden_size", "9223372036854775807"}}, "hidden_size", "9223372036854775807"},
      {{{"hidden_size", "18446744073709551615"}}, "hidden_size", "18446744073709551615"},
      {{{"hidden_size", "[[[[1]]]]"}}, "hidden_size", "integer"},
      {{{"vocab_size", "0"}}, "vocab_size", "found 0"},
      {{{"num_hidden_layers", "1000000000"}}, "num_hidden_layers", "1000000000"},
      {{{"max_position_embeddings", "0"}}, "max_position_embeddings", "found 0"},
      {{{"num_key_value_heads", "3"}}, "num_key_value_heads", "divisor of the 4 heads"},
      {{{"num_key_value_heads", "8"}}, "num_key_value_heads", "divisor of the 4 heads"},
      {{{"head_dim", ""}, {"hidden_size", "25"}}, "num_attention_heads", "hidden_size 25"},
      {{{"head_dim", "7"}}, "head_dim", "even"},
      {{{"head_dim", "16777216"}}, "head_dim", "at most 65536"},
      {{{"head_dim", ""}, {"num_attention_heads", "2"}, {"hidden_size", "16777216"}},
       "head_dim",
       "at most 65536"},
      {{{"head_dim", "32"}, {"num_attention_heads", "1048576"}}, "head_dim", "together"},
      {{{"rms_norm_eps", "-1"}}, "rms_norm_eps", "found -1"},
      {{{"hidden_act", "\"gelu\""}}, "hidden_act", "expected silu"},
      {{{"attention_bias", "2"}}, "attention_bias", "true or false"},
      {{{"mlp_bias", "1"}}, "mlp_bias", "true or false"},
      {{{"num_local_experts", "8"}}, "num_local_experts", "experts are not supported"},
      {{{"rope_parameters", R"({"full_attention": {}})"}},
       "rope_parameters.full_attention",
       "one kind of rope"},
      {{{"quantization_config", "{}"}}, "quantization_config.quant_method", "found nothing"},
      {{{"rope_theta", "-5"}}, "rope_theta", "-5"},
      {{{"rope_theta", "\"big\""}}, "rope_theta", "number"},
      {{{"rope_scaling", "7"}}, "rope_scaling", "object"},
      {{{"rope_scaling", R"({"type": "su"})"}}, "rope_scaling.type", "found su"},
      {{{"rope_parameters", R"({"rope_type": "proportional"})"}},
       "rope_parameters.rope_type",
       "found proportional"},
      {{{"rope_parameters", R"({"rope_type": "dynamic"})"}},
       "rope_parameters.factor",
       "found nothing"},
      {{{"rope_parameters", R"({"rope_type": "dynamic", "factor": 0.5})"}},
       "rope_parameters.factor",
       "found 0.5"},
      {{{"rope_scaling", R"({"type": "yarn", "beta_fast": -1})"}},
       "rope_scaling.beta_fast",
       "found -1"},
      {{{"rope_theta", "1"}, {"rope_scaling", R"({"type": "yarn", "factor": 2})"}},
       "rope_scaling.rope_theta",
       "more than 1"},
      {{{"rope_scaling", R"({"type": "longrope", "short_factor": [1, 1], "long_factor": [2]})"}},
       "rope_scaling.short_factor",
       "found 2 factors, expected 4"},
      {{{"rope_scaling", R"({"type": "longrope", "short_factor": [1, 1, 1, 1],
          "long_factor": [2, 2, 2, 0]})"}},
       "rope_scaling.long_factor",
       "found 0"},
      {{{"rope_scaling", R"({"type": "longrope", "short_factor": 1})"}},
       "rope_scaling.short_factor",
       "a list of numbers"},
      {{{"original_max_position_embeddings", "1"}, {"rope_scaling", R"({"type": "yarn"})"}},
       "original_max_position_embeddings",
       "found 1"},
      {{{"rope_scaling", R"({"type": "linear"})"}}, "rope_scaling.factor", "found nothing"},
      {{{"rope_scaling", R"({"type": "linear", "factor": 0})"}}, "rope_scaling.factor", "found 0"},
      {{{"rope_scaling", R"({"type": "llama3", "factor": 8, "low_freq_factor": 1,
          "high_freq_factor": 1, "original_max_position_embeddings": 64})"}},
       "rope_scaling.high_freq_factor",
       "more than low_freq_factor"},
      {{{"rope_scaling", R"({"type": "mrope", "mrope_section": [1, 2]})"}},
       "rope_scaling.mrope_section",
       "found [1,2], expected three numbers of frequencies, 4 together"},
      {{{"rope_scaling", R"({"type": "default", "mrope_section": [1, 2, 2]})"}},
       "rope_scaling.mrope_section",
       "found [1,2,2]"},
      {{{"rope_scaling", R"({"type": "mrope", "mrope_section": [1, -1, 4]})"}},
       "rope_scaling.mrope_section",
       "found -1"},
      {{{"rope_scaling", R"({"type": "mrope", "mrope_section": [1, 1, 2], "factor": 2.0})"}},
       "rope_scaling.factor",
       "found 2.0, expected nothing in a rope of type mrope"},
      {{{"partial_rotary_factor", "0.5"}}, "partial_rotary_factor", "not supported"},
      {{{"eos_token_id", "61"}}, "eos_token_id", "found 61"},
      {{{"eos_token_id", "[2, -1]"}}, "eos_token_id", "found -1"},
  };
  for (const Case& c : cases) {
    const std::string error = refusal(c.changes);
    CAPTURE(error);
    CHECK((error.find("/config.json: '" + c.field + "' ") != std::string::npos ||
           error.find("/config.json: " + c.field + ": ") != std::string::npos));
    CHECK(error.find(c.said) != std::string::npos);
  }
}

TEST_CASE("the end of sequence is a number or a list, generation_config.json first") {
  CHECK(opened({{"eos_token_id", "5"}}).spec.eos_tokens == std::vector<TokenId>{5});
  CHECK(opened({{"eos_token_id", "[5, 9]"}}).spec.eos_tokens == std::vector<TokenId>{5, 9});
  CHECK(opened({{"eos_token_id", "5"}}, R"({"eos_token_id": [1, 2]})").spec.eos_tokens ==
        std::vector<TokenId>{1, 2});
  CHECK(opened({{"eos_token_id", "5"}}, "{}").spec.eos_tokens == std::vector<TokenId>{5});
  CHECK(opened({{"eos_token_id", "5"}}, R"({"eos_token_id": null})").spec.eos_tokens ==
        std::vector<TokenId>{5});
}

TEST_CASE("a model is greedy unless it says do_sample") {
  const auto defaults = [](const char* generation) {
    return opened({}, generation).generation.sampling.values;
  };
  CHECK(defaults("{}").temperature == 0.0f);
  CHECK(defaults(R"({"temperature": 0.6, "top_p": 0.9})").temperature == 0.0f);
  CHECK(defaults(R"({"temperature": 0.6, "do_sample": false})").temperature == 0.0f);
  CHECK(defaults(R"({"do_sample": true})").temperature == 1.0f);
  const auto all = defaults(R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9, "top_k": 20,
                                "min_p": 0.05, "repetition_penalty": 1.1})");
  CHECK(all.temperature == 0.6f);
  CHECK(all.top_p == 0.9f);
  CHECK(all.top_k == 20);
  CHECK(all.min_p == 0.05f);
  CHECK(all.repetition_penalty == 1.1f);
  CHECK(refusal({}, R"({"top_p": 1.5})").find("/generation_config.json: top_p: found 1.5") !=
        std::string::npos);
}

TEST_CASE("a file that is absent or not JSON is an error that names it") {
  const auto error_of = [](const std::string& dir) -> std::string {
    try {
      (void)open_model(dir);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(error_of("/no/such/model") ==
        "/no/such/model/config.json: cannot open: No such file or directory");
  TempDir dir;
  CHECK(error_of(dir.path()) == dir / "config.json: cannot open: No such file or directory");
  for (std::string text : {std::string(), std::string("{"), std::string("[1]"), std::string("nul"),
                           std::string("{\"a\": 1}}"), std::string(100000, '['),
                           std::string("{\"a\": \"\xFF\"}"), std::string("\0\0", 2)}) {
    write_file(dir / "config.json", text);
    CHECK(error_of(dir.path()).find(dir / "config.json: ") == 0);
  }
  write_file(dir / "config.json", to_json(kSmall));
  CHECK(error_of(dir.path()).find("model.safetensors") != std::string::npos);
}

TEST_CASE("a repeated field counts as its last value") {
  const TinyModel files;
  std::string text = read_file(files.dir() + "/config.json");
  text.insert(1, "\"vocab_size\": -3, ");
  write_file(files.dir() + "/config.json", text);
  CHECK(open_model(files.dir()).spec.vocab == 61);
}
