// The meaning of config.json for each family: old and new forms, absent fields, unsupported values.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "core/error.h"
#include "model/model.h"
#include "model/needed_tensors.h"
#include "ops/row_source.h"
#include "tests/support/model_runner.h"
#include "tests/support/support.h"
#include "tests/support/tiny_model.h"

using namespace pagedinfer;

namespace {

// The spec of a config with these fields after the architecture and the required sizes.
std::string config_of(const std::string& architecture, const std::string& fields) {
  return fmt::format(R"({{"architectures": ["{}"], "hidden_size": 24, "num_hidden_layers": 4,
      "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 40,
      "vocab_size": 61{}}})",
                     architecture, fields);
}

ModelSpec spec_from(const std::string& config) {
  TempDir dir;
  write_file(dir / "config.json", config);
  return open_model(dir.path(), WeightSource::kDummy).spec;
}

ModelSpec spec_of(const std::string& architecture, const std::string& fields) {
  return spec_from(config_of(architecture, fields));
}

std::string config_refusal(const std::string& architecture, const std::string& fields) {
  try {
    (void)spec_of(architecture, fields);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::vector<int> windows(const ModelSpec& spec) {
  std::vector<int> all;
  for (const LayerSpec& layer : spec.layers) all.push_back(layer.window);
  return all;
}

const std::vector<float>& rope_of(const ModelSpec& spec, size_t layer) {
  return spec.ropes.at(static_cast<size_t>(spec.layers.at(layer).rope)).inv_freq;
}

constexpr const char *kQwen2 = "Qwen2ForCausalLM", *kQwen3 = "Qwen3ForCausalLM",
                     *kLlama = "LlamaForCausalLM", *kMistral = "MistralForCausalLM",
                     *kGemma = "Gemma3ForCausalLM", *kSmolLM3 = "SmolLM3ForCausalLM",
                     *kGranite = "GraniteForCausalLM", *kOlmo2 = "Olmo2ForCausalLM",
                     *kPhi3 = "Phi3ForCausalLM", *kGemma2 = "Gemma2ForCausalLM",
                     *kGemma1 = "GemmaForCausalLM", *kOlmo3 = "Olmo3ForCausalLM",
                     *kExaone4 = "Exaone4ForCausalLM", *kMinistral3 = "Ministral3ForCausalLM",
                     *kGlm4 = "Glm4ForCausalLM";
using Ints = std::vector<int>;

}  // namespace

TEST_CASE("a Gemma's old and new configs mean the same") {
  const ModelSpec old_form = spec_of(kGemma, R"(, "head_dim": 8, "sliding_window": 3,
      "sliding_window_pattern": 2, "rope_theta": 7e4, "rope_local_base_freq": 500,
      "rope_scaling": {"rope_type": "linear", "factor": 8.0})");
  const ModelSpec new_form = spec_of(kGemma, R"(, "head_dim": 8, "sliding_window": 3,
      "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
      "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 70000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}})");
  for (const ModelSpec& spec : {old_form, new_form}) {
    CHECK(windows(spec) == Ints{3, 0, 3, 0});
    CHECK(rope_of(spec, 0) == rope_of(old_form, 0));
    CHECK(rope_of(spec, 1) == rope_of(old_form, 1));
    CHECK(rope_of(spec, 0) != rope_of(spec, 1));
    CHECK(rope_of(spec, 0)[0] == 1.0f);
    CHECK(rope_of(spec, 1)[0] == 0.125f);  // the scaling is the full layers' alone
  }
}

TEST_CASE("what a Gemma's config leaves out has the family's default") {
  const ModelSpec spec = spec_from(R"({"architectures": ["Gemma3ForCausalLM"]})");
  CHECK(spec.hidden == 2304);
  CHECK(spec.vocab == 262208);
  CHECK(spec.intermediate == 9216);
  CHECK(spec.max_positions == 131072);
  CHECK(spec.layers.size() == 26);
  CHECK(spec.heads == 8);
  CHECK(spec.kv_heads == 4);
  CHECK(spec.head_dim == 256);
  CHECK(spec.tied_embeddings);
  CHECK(spec.qk_norm == QkNorm::kHeads);
  CHECK(spec.norms_inputs);
  CHECK(spec.norms_outputs);
  CHECK(spec.norm_weight_offset == 1.0f);
  CHECK(spec.embedding_scale == 48.0f);
  CHECK(spec.attention_scale == 1.0f / 16.0f);
  CHECK(spec.activation == Activation::kGeluTanh);
  CHECK(spec.eos_tokens == std::vector<TokenId>{1});
  for (size_t i = 0; i < 26; ++i) CHECK(spec.layers[i].window == (i % 6 == 5 ? 0 : 4096));
  CHECK(rope_of(spec, 0)[127] == doctest::Approx(std::pow(1e4, -254.0 / 256)));
  CHECK(rope_of(spec, 5)[127] == doctest::Approx(std::pow(1e6, -254.0 / 256)));
  CHECK(spec_of(kGemma, R"(, "query_pre_attn_scalar": 4)").attention_scale == 0.5f);
}

TEST_CASE("a multimodal Gemma is its text model, with old and new tensor names") {
  const std::string config =
      R"({"architectures": ["Gemma3ForConditionalGeneration"], "eos_token_id": [1, 6],
          "vision_config": {"hidden_size": 3}, "text_config": )" +
      config_of("x", R"(, "head_dim": 8, "eos_token_id": 5)") + "}";
  const ModelSpec spec = spec_from(config);
  CHECK(spec.hidden == 24);
  CHECK(spec.eos_tokens == std::vector<TokenId>{1, 6});
  for (const char* prefix : {"language_model.model.", "model.language_model."}) {
    TempDir dir;
    write_file(dir / "config.json", config);
    const std::string header = fmt::format(
        R"({{"{}embed_tokens.weight": {{"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}}}   )",
        prefix);
    const uint64_t length = header.size();
    write_file(dir / "model.safetensors",
               std::string(reinterpret_cast<const char*>(&length), 8) + header + "1234");
    const OpenedModel model = open_model(dir.path());
    CHECK(model.names.embedding == std::string(prefix) + "embed_tokens.weight");
    CHECK(model.names.layers[3].mlp_out_norm ==
          std::string(prefix) + "layers.3.post_feedforward_layernorm.weight");
  }
}

TEST_CASE("a Qwen has windows only if use_sliding_window is true, and then in its upper layers") {
  for (const char* qwen : {kQwen2, kQwen3}) {
    const auto of = [&](const char* fields) { return windows(spec_of(qwen, fields)); };
    CHECK(of(R"(, "sliding_window": 5, "max_window_layers": 1)") == Ints{0, 0, 0, 0});
    CHECK(of(R"(, "use_sliding_window": true, "sliding_window": 5, "max_window_layers": 1)") ==
          Ints{0, 5, 5, 5});
    CHECK(of(R"(, "use_sliding_window": true, "sliding_window": 5)") == Ints{0, 0, 0, 0});
    CHECK(of(R"(, "use_sliding_window": true, "max_window_layers": 3)") == Ints{0, 0, 0, 4096});
    CHECK(of(R"(, "use_sliding_window": true, "sliding_window": null,
        "max_window_layers": 0)") == Ints{0, 0, 0, 0});
    CHECK(of(R"(, "use_sliding_window": true, "sliding_window": 2, "max_window_layers": 0,
        "layer_types": ["full_attention", "sliding_attention", "full_attention",
                        "full_attention"])") == Ints{0, 2, 0, 0});
  }
}

TEST_CASE("a Qwen 2 MoE has windows in every second one of its lower layers") {
  const auto of = [](const char* fields) {
    return windows(spec_of("Qwen2MoeForCausalLM", fields));
  };
  CHECK(of(R"(, "sliding_window": 5)") == Ints{0, 0, 0, 0});
  CHECK(of(R"(, "use_sliding_window": true, "sliding_window": 5)") == Ints{5, 0, 5, 0});
  CHECK(of(R"(, "use_sliding_window": true, "max_window_layers": 2)") == Ints{4096, 0, 0, 0});
  CHECK(of(R"(, "use_sliding_window": true, "max_window_layers": 0)") == Ints{0, 0, 0, 0});
}

TEST_CASE("a Mistral has windows in the layers that it names, else in every layer or in none") {
  CHECK(windows(spec_of(kMistral, R"(, "sliding_window": 9)")) == Ints{9, 9, 9, 9});
  CHECK(windows(spec_of(kMistral, R"(, "sliding_window": null)")) == Ints{0, 0, 0, 0});
  CHECK(windows(spec_of(kMistral, "")) == Ints{4096, 4096, 4096, 4096});
  const std::string alternating = R"(, "layer_types": ["full_attention", "sliding_attention",
      "attention", "sliding_attention"])";
  for (const char* mistral : {kMistral, "MinistralForCausalLM"}) {
    const auto of = [&](const std::string& fields) { return windows(spec_of(mistral, fields)); };
    CHECK(of(R"(, "sliding_window": 9)" + alternating) == Ints{0, 9, 0, 9});
    CHECK(of(alternating) == Ints{0, 4096, 0, 4096});
    CHECK(of(R"(, "sliding_window": 9, "layer_types": null)") == Ints{9, 9, 9, 9});
    CHECK(of(R"(, "sliding_window": null, "layer_types": ["full_attention", "full_attention",
        "full_attention", "full_attention"])") == Ints{0, 0, 0, 0});
  }
}

TEST_CASE("layer_types alone says which layers slide, where a family has it, as in transformers") {
  struct Row {
    std::vector<const char*> families;
    std::vector<const char*> switches;  // "use_sliding_window", where "" is without it
    const char* list;
    // The windows if "sliding_window" is absent, null and 3: S slides, F does not. "" is an error.
    std::vector<std::string> expected;
  };
  const std::vector<const char*> any = {"", "true", "false"}, on = {"true"}, off = {"", "false"};
  const std::vector<const char*> never = {kLlama, kGranite, kOlmo2, kGemma1, kGlm4},
                                 qwens = {kQwen2, kQwen3},
                                 mistrals = {kMistral, "MinistralForCausalLM"};
  const Row rows[] = {
      {never, any, "", {"FFFF", "FFFF", "FFFF"}},
      {never, any, "SFFF", {"", "", ""}},
      {never, any, "FFFF", {"FFFF", "FFFF", "FFFF"}},
      {{kPhi3}, any, "", {"FFFF", "FFFF", "SSSS"}},
      {{kPhi3}, any, "SFFF", {"", "", ""}},
      {{kPhi3}, any, "FFFF", {"FFFF", "FFFF", ""}},
      {{kPhi3}, any, "SSSS", {"", "", "SSSS"}},
      {mistrals, any, "", {"SSSS", "FFFF", "SSSS"}},
      {mistrals, any, "SFFF", {"SFFF", "", "SFFF"}},
      {mistrals, any, "FFFF", {"FFFF", "FFFF", "FFFF"}},
      {qwens, off, "", {"FFFF", "FFFF", "FFFF"}},
      {qwens, off, "SFFF", {"", "", ""}},
      {qwens, off, "FFFF", {"FFFF", "FFFF", "FFFF"}},
      {qwens, on, "", {"FSSS", "FFFF", "FSSS"}},
      {qwens, on, "SFFF", {"SFFF", "", "SFFF"}},
      {qwens, on, "FFFF", {"FFFF", "FFFF", "FFFF"}},
      {{kSmolLM3}, off, "", {"FFFF", "FFFF", "FFFF"}},
      {{kSmolLM3}, on, "", {"FFFF", "FFFF", "FFFS"}},
      {{kSmolLM3}, any, "SFFF", {"", "", "SFFF"}},
      {{kSmolLM3}, any, "FFFF", {"FFFF", "FFFF", "FFFF"}},
      {{kOlmo3}, any, "", {"SSSF", "", "SSSF"}},
      {{kExaone4}, any, "", {"SSSF", "FFFF", "SSSF"}},
      {{kGemma2}, any, "", {"SFSF", "", "SFSF"}},
      {{kGemma}, any, "", {"SSSS", "", "SSSS"}},
      {{kGemma2, kGemma, kOlmo3, kExaone4}, any, "SFFF", {"SFFF", "", "SFFF"}},
      {{kGemma2, kGemma, kOlmo3, kExaone4}, any, "FFFF", {"FFFF", "FFFF", "FFFF"}},
  };
  const std::string windows_given[] = {"", R"(, "sliding_window": null)",
                                       R"(, "sliding_window": 3)"};
  for (const Row& row : rows) {
    std::string listed;
    for (const char kind : std::string(row.list)) {
      listed += fmt::format(R"({}"{}_attention")", listed.empty() ? "" : ", ",
                            kind == 'S' ? "sliding" : "full");
    }
    if (!listed.empty()) listed = fmt::format(R"(, "layer_types": [{}])", listed);
    for (const char* family : row.families) {
      for (const std::string is_on : row.switches) {
        for (size_t i = 0; i < 3; ++i) {
          std::string fields = R"(, "head_dim": 8, "max_window_layers": 1)" + listed;
          if (!is_on.empty()) fields += R"(, "use_sliding_window": )" + is_on;
          fields += windows_given[i];
          CAPTURE(family);
          CAPTURE(fields);
          std::string found;
          try {
            for (const int window : windows(spec_of(family, fields))) {
              CHECK((window == 0 || window == (i == 0 ? 4096 : 3)));
              found += window == 0 ? 'F' : 'S';
            }
          } catch (const Error& error) {
            const std::string said = error.what();
            CHECK((said.find("layer_types") != said.npos || said.find("layers") != said.npos));
          }
          CHECK(found == row.expected[i]);
        }
      }
    }
  }
}

TEST_CASE("families differ in what an absent field means") {
  const auto heads_of = [](const char* architecture, const char* kv_heads) {
    return spec_from(fmt::format(R"({{"architectures": ["{}"], "hidden_size": 64,
        "num_attention_heads": 32, "num_hidden_layers": 1, "intermediate_size": 8,
        "vocab_size": 9{}}})",
                                 architecture, kv_heads));
  };
  CHECK(heads_of("LlamaForCausalLM", "").kv_heads == 32);
  CHECK(heads_of(kMistral, "").kv_heads == 8);
  CHECK(heads_of(kMistral, R"(, "num_key_value_heads": null)").kv_heads == 32);
  CHECK(heads_of(kQwen2, "").kv_heads == 32);
  CHECK(heads_of(kQwen2, "").head_dim == 2);
  CHECK(heads_of(kQwen3, "").head_dim == 128);
  CHECK(heads_of(kMistral, "").eos_tokens == std::vector<TokenId>{2});
  CHECK(heads_of(kQwen3, "").eos_tokens.empty());
  CHECK(heads_of(kMistral, "").max_positions == 131072);
  CHECK(heads_of("LlamaForCausalLM", "").max_positions == 2048);
  CHECK(heads_of(kQwen2, "").max_positions == 32768);
  CHECK(heads_of(kQwen2, R"(, "attention_bias": false)").qkv_bias);
  CHECK_FALSE(heads_of(kQwen3, "").tied_embeddings);
}

TEST_CASE("a SmolLM3 has rope where no_rope_layers has a 1, else in all but each fourth layer") {
  const auto ropes = [](const char* fields) {
    Ints all;
    for (const LayerSpec& layer : spec_of(kSmolLM3, fields).layers) all.push_back(layer.rope);
    return all;
  };
  CHECK(ropes("") == Ints{0, 0, 0, kNoRope});
  CHECK(ropes(R"(, "no_rope_layers": null)") == Ints{0, 0, 0, kNoRope});
  CHECK(ropes(R"(, "no_rope_layer_interval": 2)") == Ints{0, kNoRope, 0, kNoRope});
  CHECK(ropes(R"(, "no_rope_layers": [0, 1, 1, 0, 1])") == Ints{kNoRope, 0, 0, kNoRope});
  const auto of = [](const char* fields) { return windows(spec_of(kSmolLM3, fields)); };
  CHECK(of(R"(, "sliding_window": 5)") == Ints{0, 0, 0, 0});
  CHECK(of(R"(, "use_sliding_window": true)") == Ints{0, 0, 0, 0});
  CHECK(of(R"(, "use_sliding_window": true, "sliding_window": 5)") == Ints{0, 0, 0, 5});
  CHECK(of(R"(, "use_sliding_window": true, "sliding_window": 5, "layer_types":
      ["sliding_attention", "full_attention", "full_attention", "full_attention"])") ==
        Ints{5, 0, 0, 0});
  CHECK(rope_of(spec_of(kSmolLM3, ""), 0)[1] == doctest::Approx(std::pow(2e6, -2.0 / 6)));
}

TEST_CASE("a Granite's multipliers are 1 where config.json has none") {
  const ModelSpec plain = spec_of(kGranite, "");
  for (const float factor :
       {plain.embedding_scale, plain.attention_scale, plain.residual_scale, plain.logit_scale}) {
    CHECK(factor == 1.0f);
  }
  const ModelSpec spec = spec_of(kGranite, R"(, "embedding_multiplier": 12, "logits_scaling": 8,
      "attention_multiplier": 0.015625, "residual_multiplier": 0.22)");
  CHECK(spec.embedding_scale == 12.0f);
  CHECK_FALSE(spec.rounds_embedding_scale);
  CHECK(spec.attention_scale == 0.015625f);
  CHECK(spec.residual_scale == 0.22f);
  CHECK(spec.logit_scale == 0.125f);
}

TEST_CASE("an OLMo 3's scaling of rope is for its full layers alone, in old and new configs") {
  const ModelSpec old_form = spec_of(kOlmo3, R"(, "sliding_window": 3, "rope_theta": 7e4,
      "rope_scaling": {"rope_type": "linear", "factor": 8.0})");
  const ModelSpec new_form = spec_of(kOlmo3, R"(, "sliding_window": 3, "rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 7e4},
      "sliding_attention": {"rope_type": "default", "rope_theta": 7e4}})");
  for (const ModelSpec& spec : {old_form, new_form}) {
    CHECK(windows(spec) == Ints{3, 3, 3, 0});
    CHECK(rope_of(spec, 0)[0] == 1.0f);
    CHECK(rope_of(spec, 3)[0] == 0.125f);
    CHECK(rope_of(spec, 0)[1] == doctest::Approx(std::pow(7e4, -2.0 / 6)));
    CHECK(spec.qk_norm == QkNorm::kRows);
    CHECK((spec.norms_outputs && !spec.norms_inputs));
  }
  CHECK(rope_of(spec_of(kOlmo3, ""), 0)[1] == doctest::Approx(std::pow(5e5, -2.0 / 6)));
}

TEST_CASE(
    "an EXAONE 4 with a window has rope in the layers that slide, without one in all layers") {
  const auto ropes = [](const char* fields) {
    Ints all;
    for (const LayerSpec& layer : spec_of(kExaone4, fields).layers) all.push_back(layer.rope);
    return all;
  };
  CHECK(ropes("") == Ints{0, 0, 0, kNoRope});
  CHECK(ropes(R"(, "sliding_window_pattern": 2)") == Ints{0, kNoRope, 0, kNoRope});
  CHECK(ropes(R"(, "sliding_window": null, "sliding_window_pattern": null)") == Ints{0, 0, 0, 0});
  CHECK(ropes(R"(, "sliding_window": 5, "sliding_window_pattern": "LLLG", "layer_types":
      ["full_attention", "sliding_attention", "full_attention", "full_attention"])") ==
        Ints{kNoRope, 0, kNoRope, kNoRope});
  const ModelSpec spec = spec_of(kExaone4, R"(, "attention_bias": true, "mlp_bias": true)");
  CHECK((spec.norms_outputs && !spec.norms_inputs));
  CHECK(spec.qk_norm == QkNorm::kHeads);
  CHECK_FALSE((spec.qkv_bias || spec.attention_out_bias || spec.mlp_bias));
}

TEST_CASE("q of a Ministral 3 grows with every original length before its position") {
  const ModelSpec spec = spec_of(kMinistral3, R"(, "max_position_embeddings": 1000,
      "rope_parameters": {"rope_type": "yarn", "factor": 4, "rope_theta": 1e6,
      "original_max_position_embeddings": 300, "llama_4_scaling_beta": 0.1})");
  REQUIRE(spec.ropes.size() == 1);
  const RopeSpec& rope = spec.ropes[0];
  CHECK(rope.positions_per_q_factor == 300);
  REQUIRE(rope.q_factors.size() == 5);  // up to the 1200 positions that the rope is stretched to
  for (size_t i = 0; i < 5; ++i) {
    CHECK(rope.q_factors[i] == doctest::Approx(1 + 0.1 * std::log(1.0 + static_cast<double>(i))));
  }
  CHECK(rope.q_factors[0] == 1.0f);
  CHECK(windows(spec) == Ints{0, 0, 0, 0});
  CHECK(spec.head_dim == 128);
  const char* const no_beta = R"(, "rope_parameters": {"rope_type": "default"})";
  CHECK(spec_of(kMinistral3, no_beta).ropes[0].q_factors.empty());
  // Only in this family.
  CHECK(spec_of(kMistral, R"(, "rope_parameters": {"rope_type": "default",
      "original_max_position_embeddings": 300, "llama_4_scaling_beta": 0.1})")
            .ropes[0]
            .q_factors.empty());
}

TEST_CASE("a Gemma 1 has the norms of a Llama, and its activation may have its first name") {
  const ModelSpec spec = spec_of(kGemma1, R"(, "head_dim": 16, "hidden_act": "gelu",
      "hidden_activation": null)");
  CHECK(spec.activation == Activation::kGeluTanh);
  CHECK(spec.norms_inputs);
  CHECK_FALSE(spec.norms_outputs);
  CHECK(spec.norm_weight_offset == 1.0f);
  CHECK(spec.attention_scale == 0.25f);
  CHECK(spec.tied_embeddings);
  CHECK(windows(spec) == Ints{0, 0, 0, 0});
  CHECK(spec_of(kGemma1, "").head_dim == 256);
}

TEST_CASE("a Gemma 2 has soft caps unless they are null, and every other layer slides") {
  const ModelSpec spec = spec_of(kGemma2, R"(, "head_dim": 8)");
  CHECK(spec.score_cap == 50.0f);
  CHECK(spec.logit_cap == 30.0f);
  CHECK(windows(spec) == Ints{4096, 0, 4096, 0});
  CHECK(spec.qk_norm == QkNorm::kNone);
  CHECK(spec.norms_outputs);
  CHECK(spec.attention_scale == 1.0f / 16.0f);
  const ModelSpec none = spec_of(kGemma2, R"(, "attn_logit_softcapping": null,
      "final_logit_softcapping": null, "sliding_window": 7, "layer_types": ["full_attention",
      "full_attention", "full_attention", "sliding_attention"])");
  CHECK(none.score_cap == 0.0f);
  CHECK(none.logit_cap == 0.0f);
  CHECK(windows(none) == Ints{0, 0, 0, 7});
}

TEST_CASE("a Phi-3's matrices are rows of two tensors, and part of a head is rotated") {
  TempDir dir;
  write_file(dir / "config.json",
             config_of(kPhi3, R"(, "head_dim": 16, "partial_rotary_factor": 0.75,
      "sliding_window": 9, "tie_word_embeddings": true)"));
  const ModelRunner runner(dir.path(), DType::kF32, available_isas().back(), 1,
                           WeightSource::kDummy);
  const ModelSpec& spec = runner.model.spec;
  CHECK(windows(spec) == Ints{9, 9, 9, 9});
  CHECK(rope_of(spec, 0).size() == 6);
  const Checkpoint& files = runner.model.checkpoint;
  const Tensor qkv = files.tensor("model.layers.2.self_attn.qkv_proj.weight", 64 + 2 * 32, 24);
  const Tensor gate_up = files.tensor("model.layers.2.mlp.gate_up_proj.weight", 80, 24);
  const LayerWeights& w = runner.weights.layers[2];
  CHECK(w.q.data == qkv.data);
  CHECK(w.k.data == qkv.row<uint16_t>(64));
  CHECK(w.v.data == qkv.row<uint16_t>(96));
  CHECK(w.gate.data == gate_up.data);
  CHECK(w.up.data == gate_up.row<uint16_t>(40));
  CHECK(w.q.rows == 64);
  CHECK(w.v.rows == 32);
  CHECK(files.tensors().size() == 2 + 4 * 6);
}

TEST_CASE("a GLM-4's pairs of neighbours come apart when its weights are loaded") {
  TempDir dir;
  write_file(dir / "config.json", config_of(kGlm4, R"(, "head_dim": 10)"));
  const ModelRunner runner(dir.path(), DType::kF32, available_isas().back(), 1,
                           WeightSource::kDummy);
  CHECK(rope_of(runner.model.spec, 0).size() == 3);  // half of a head, rounded up to pairs
  const Checkpoint& files = runner.model.checkpoint;
  const LayerWeights& w = runner.weights.layers[2];
  // The stored rows of a head, in the order of rope().
  const int order[] = {0, 2, 4, 1, 3, 5, 6, 7, 8, 9};
  for (const auto& [name, matrix, bias] : {std::tuple("q", w.q, w.q_bias), {"k", w.k, w.k_bias}}) {
    const std::string module = fmt::format("model.layers.2.self_attn.{}_proj.", name);
    const Tensor stored = files.tensor(module + "weight", matrix.rows, 24);
    const Tensor stored_bias = files.tensor(module + "bias", 1, matrix.rows);
    REQUIRE(bias.cols == matrix.rows);
    for (int row = 0; row < matrix.rows; ++row) {
      const int from = row / 10 * 10 + order[row % 10];
      CHECK(bias.row<float>(0)[row] == stored_number(stored_bias, 0, from));
      for (int c = 0; c < 24; ++c) {
        CHECK(stored_number(matrix, row, c) == stored_number(stored, from, c));
      }
    }
  }
  CHECK(w.v.data == files.tensor("model.layers.2.self_attn.v_proj.weight", 20, 24).data);
}

TEST_CASE("a GLM-4 has what its config leaves out") {
  const ModelSpec spec = spec_from(R"({"architectures": ["Glm4ForCausalLM"]})");
  CHECK(spec.eos_tokens == std::vector<TokenId>{151329, 151336, 151338});
  CHECK(rope_of(spec, 0).size() == 32);
  CHECK((spec.qkv_bias && !spec.attention_out_bias && !spec.mlp_bias));
  CHECK((spec.norms_inputs && spec.norms_outputs));
  CHECK(spec.kv_heads == 2);
  CHECK_FALSE(spec_of(kGlm4, R"(, "attention_bias": false)").qkv_bias);
  CHECK(rope_of(spec_of(kGlm4, R"(, "partial_rotary_factor": 1.0)"), 0).size() == 64);
  CHECK(spec_of(kGlm4, R"(, "eos_token_id": 3)").eos_tokens == std::vector<TokenId>{3});
}

TEST_CASE("biases are those that config.json asks for, and a Qwen 2 has its own") {
  for (const char* family : {kLlama, kMistral, kQwen3, kSmolLM3, kGranite}) {
    CAPTURE(family);
    const ModelSpec none = spec_of(family, R"(, "attention_bias": false, "mlp_bias": null)");
    CHECK_FALSE((none.qkv_bias || none.attention_out_bias || none.mlp_bias));
    const ModelSpec all = spec_of(family, R"(, "attention_bias": true, "mlp_bias": true)");
    CHECK((all.qkv_bias && all.attention_out_bias && all.mlp_bias));
  }
  const ModelSpec qwen2 = spec_of(kQwen2, R"(, "attention_bias": true)");
  CHECK((qwen2.qkv_bias && !qwen2.attention_out_bias && !qwen2.mlp_bias));
}

TEST_CASE("is_causal null or absent means causal") {
  for (const char* family : {kLlama, kMistral, kQwen2, kQwen3, kGemma}) {
    CAPTURE(family);
    CHECK_NOTHROW(spec_of(family, R"(, "is_causal": null)"));
  }
}

TEST_CASE("an activation may have any name that transformers has for its formula") {
  CHECK(spec_of(kMistral, R"(, "hidden_act": "swish")").activation == Activation::kSilu);
  for (const char* name :
       {"gelu_pytorch_tanh", "gelu_accurate", "gelu_fast", "gelu_new", "gelu_python_tanh"}) {
    const ModelSpec spec =
        spec_of(kGemma2, fmt::format(R"(, "head_dim": 8, "hidden_activation": "{}")", name));
    CHECK(spec.activation == Activation::kGeluTanh);
    CHECK(config_refusal(kLlama, fmt::format(R"(, "hidden_act": "{}")", name))
              .find("expected silu") != std::string::npos);
  }
}

TEST_CASE("an unsupported setting of a family is an error that names field and value") {
  struct Case {
    const char *architecture, *fields, *field, *said;
  };
  const Case cases[] = {
      {kGemma, R"("attn_logit_softcapping": 50.0)", "attn_logit_softcapping", "50"},
      {kGemma, R"("final_logit_softcapping": 30)", "final_logit_softcapping", "30"},
      {kGemma, R"("use_bidirectional_attention": true)", "use_bidirectional_attention", "true"},
      {kGemma, R"("hidden_activation": "gelu")", "hidden_activation", "gelu_pytorch_tanh"},
      {kGemma, R"("query_pre_attn_scalar": 0)", "query_pre_attn_scalar", "found 0"},
      {kGemma, R"("sliding_window_pattern": 0)", "sliding_window_pattern", "found 0"},
      {kGemma, R"("sliding_window": null)", "sliding_window", "is off"},
      {kGemma, R"("sliding_window": 0)", "sliding_window", "found 0"},
      {kGemma, R"("layer_types": ["full_attention"])", "layer_types", "found 1 entry, expected 4"},
      {kGemma, R"("layer_types": [])", "layer_types", "found 0 entries"},
      {kGemma, R"("layer_types": ["chunked_attention"])", "layer_types", "found chunked_attention"},
      {kGemma, R"("rope_parameters": {"rope_type": "linear", "factor": 2})", "rope_parameters",
       "full_attention"},
      {kGemma, R"("rope_parameters": {"full_attention": {"rope_type": "su"}})",
       "rope_parameters.full_attention.rope_type", "found su"},
      {kGemma, R"("rope_parameters": {"full_attention": {}}, "rope_scaling": {"factor": 2})",
       "rope_scaling", "beside rope_parameters"},
      {kGemma, R"("rope_scaling": {"type": "dynamic"})", "rope_scaling.factor", "found nothing"},
      {kGemma, R"("rope_local_base_freq": 0)", "rope_local_base_freq", "found 0"},
      {kQwen3, R"("hidden_act": "gelu")", "hidden_act", "expected silu"},
      {kQwen3, R"("rope_scaling": {"rope_type": "su", "factor": 4.0})", "rope_scaling.rope_type",
       "found su"},
      {kQwen2, R"("rope_scaling": {"type": "mrope"})", "rope_scaling.mrope_section",
       "found nothing"},
      {kQwen2, R"("use_sliding_window": 1)", "use_sliding_window", "true or false"},
      {kQwen2, R"("layer_types": ["sliding_attention", "full_attention", "full_attention",
          "full_attention"])",
       "sliding_window", "is off"},
      {kMistral, R"("sliding_window": -1)", "sliding_window", "found -1"},
      {kMistral, R"("layer_types": ["full_attention"])", "layer_types",
       "found 1 entry, expected 4"},
      {kMistral, R"("layer_types": ["sliding_attention", "chunked_attention", "full_attention",
          "full_attention"])",
       "layer_types", "found chunked_attention"},
      {kMistral, R"("sliding_window": null, "layer_types": ["sliding_attention", "full_attention",
          "full_attention", "full_attention"])",
       "sliding_window", "is off"},
      {kLlama, R"("layer_types": ["chunked_attention", "full_attention", "full_attention",
          "full_attention"])",
       "layer_types", "found chunked_attention"},
      {kLlama, R"("layer_types": ["full_attention", "sliding_attention", "full_attention",
          "full_attention"])",
       "layer_types", "found sliding_attention, expected full_attention only"},
      {kQwen2, R"("layer_types": ["linear_attention", "full_attention", "full_attention",
          "full_attention"])",
       "layer_types", "found linear_attention"},
      {kQwen3, R"("layer_types": ["linear_attention", "full_attention", "full_attention",
          "full_attention"])",
       "layer_types", "found linear_attention"},
      {kLlama, R"("is_causal": false)", "is_causal", "is not true"},
      {kMistral, R"("is_causal": false)", "is_causal", "is not true"},
      {kQwen2, R"("is_causal": false)", "is_causal", "is not true"},
      {kQwen3, R"("is_causal": false)", "is_causal", "is not true"},
      {kGemma, R"("is_causal": false)", "is_causal", "is not true"},
      {kGemma, R"("is_causal": "no")", "is_causal", "true or false"},
      {"Gemma3ForConditionalGeneration", R"("is_causal": false)", "is_causal", "is not true"},
      {"Gemma3ForConditionalGeneration", R"("text_config": {"is_causal": false})",
       "text_config.is_causal", "is not true"},
      {"Gemma3ForConditionalGeneration", R"("text_config": {"use_bidirectional_attention": true})",
       "text_config.use_bidirectional_attention", "is true"},
      {kMistral, R"("quantization_config": {"quant_method": "bitsandbytes"})",
       "quantization_config.quant_method",
       "found bitsandbytes, expected a method that can be read"},
      {kMistral, R"("num_local_experts": 8)", "num_local_experts", "experts"},
      {kSmolLM3, R"("no_rope_layers": [1, 1])", "no_rope_layers", "found 2 entries, expected 4"},
      {kSmolLM3, R"("no_rope_layers": [1, 1, 2, 0])", "no_rope_layers", "found 2"},
      {kSmolLM3, R"("no_rope_layer_interval": 0)", "no_rope_layer_interval", "found 0"},
      {kSmolLM3, R"("partial_rotary_factor": 0.5)", "partial_rotary_factor", "is not 1"},
      {kGranite, R"("residual_multiplier": 0)", "residual_multiplier", "found 0"},
      {kGranite, R"("logits_scaling": -8)", "logits_scaling", "found -8"},
      {kOlmo2, R"("hidden_act": "gelu")", "hidden_act", "expected silu"},
      {kExaone4, R"("sliding_window_pattern": "LLLG")", "sliding_window_pattern", "found \"LLLG\""},
      {kMinistral3, R"("x": 0)", "rope_parameters", "found nothing"},
      {kMinistral3, R"("rope_parameters": {"llama_4_scaling_beta": -1})",
       "rope_parameters.llama_4_scaling_beta", "found -1"},
      {kMinistral3, R"("rope_parameters": {"llama_4_scaling_beta": 0.1,
          "original_max_position_embeddings": 3})",
       "rope_parameters.original_max_position_embeddings",
       "found 3, expected more than the 262144 positions of the model / 65536"},
      {kMinistral3, R"("rope_parameters": {"partial_rotary_factor": 0.5})",
       "rope_parameters.partial_rotary_factor", "is not 1"},
      {kOlmo3, R"("rope_parameters": {"rope_type": "yarn"})", "rope_parameters",
       "has neither full_attention nor"},
      {kPhi3, R"("partial_rotary_factor": 0.0)", "partial_rotary_factor", "no channel"},
      {kPhi3, R"("partial_rotary_factor": 1.5)", "partial_rotary_factor", "found 1.5"},
      {kPhi3, R"("rope_scaling": {"type": "su", "short_factor": [1, 1, 1], "long_factor": [1]})",
       "rope_scaling.long_factor", "found 1 factor, expected 3"},
      {kPhi3, R"("rope_scaling": {"type": "linear", "factor": 2.0})", "rope_scaling.type",
       "found linear, expected default or longrope"},
      {kPhi3, R"("rope_scaling": {"rope_type": "dynamic", "factor": 2.0})",
       "rope_scaling.rope_type", "found dynamic"},
      {kPhi3,
       R"("rope_parameters": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 32})",
       "rope_parameters.rope_type", "found llama3"},
      {kGemma1, R"("hidden_act": "relu")", "hidden_act", "expected gelu_pytorch_tanh"},
      {kGemma1, R"("hidden_act": "")", "hidden_act", "expected gelu_pytorch_tanh"},
      {kGemma1, R"("hidden_activation": "gelu")", "hidden_activation",
       "expected gelu_pytorch_tanh"},
      {kGemma1, R"("use_bidirectional_attention": true)", "use_bidirectional_attention", "true"},
      {kGemma2, R"("attn_logit_softcapping": 0)", "attn_logit_softcapping", "found 0"},
      {kGemma2, R"("final_logit_softcapping": "30")", "final_logit_softcapping", "30"},
      {kGemma2, R"("use_bidirectional_attention": true)", "use_bidirectional_attention", "true"},
      {"PhimoeForCausalLM", R"("x": 0)", "architectures",
       "supported are: LlamaForCausalLM, MistralForCausalLM, MinistralForCausalLM, "},
      {"Gemma3ForConditionalGeneration", R"("x": 0)", "text_config", "found nothing"},
      {"Gemma3ForConditionalGeneration", R"("text_config": {"quantization_config": {}})",
       "text_config.quantization_config.quant_method", "found nothing"},
      {"Gemma3ForConditionalGeneration", R"("text_config": {"final_logit_softcapping": 1})",
       "text_config.final_logit_softcapping", "is 1"},
  };
  for (const Case& c : cases) {
    const std::string error = config_refusal(c.architecture, fmt::format(", {}", c.fields));
    CAPTURE(c.fields);
    CAPTURE(error);
    CHECK((error.find(fmt::format("/config.json: '{}' ", c.field)) != std::string::npos ||
           error.find(fmt::format("/config.json: {}: ", c.field)) != std::string::npos));
    CHECK(error.find(c.said) != std::string::npos);
  }
}

TEST_CASE("the embedding scale is rounded to the type of computation") {
  for (const char* const family : {kGemma, kGemma2, kGemma1}) {
    const TempDir dir;
    write_file(dir / "config.json", config_of(family, R"(, "head_dim": 8)"));
    for (const auto& [compute, scale] :
         {std::pair{DType::kF32, 4.89897949f}, {DType::kBF16, 4.90625f}}) {
      const ModelRunner runner(dir.path(), compute, available_isas().back(), 1,
                               WeightSource::kDummy);
      CHECK(runner.weights.embedding_scale == scale);
    }
  }
}

TEST_CASE("a stored head of tied embeddings is used only if it differs") {
  const TinyModel untied;  // its embedding and its head differ
  const auto say_tied = [](const std::string& dir) {
    std::string config = read_file(dir + "/config.json");
    const size_t at = config.find("\"tie_word_embeddings\": false");
    REQUIRE(at != std::string::npos);
    write_file(dir + "/config.json", config.replace(at, 28, "\"tie_word_embeddings\": true "));
  };
  say_tied(untied.dir());
  CHECK_FALSE(open_model(untied.dir()).spec.tied_embeddings);

  const std::string path = untied.dir() + "/model.safetensors";
  const std::string original = read_file(path);
  std::string file = original;  // the head under another name: only the embedding is left
  file.replace(file.find("lm_head.weight"), 14, "lm_hand.weight");
  write_file(path, file);
  OpenedModel model = open_model(untied.dir());
  CHECK(model.spec.tied_embeddings);
  CHECK(model.names.embedding == "model.embed_tokens.weight");

  file = original;  // only the head is left
  file.replace(file.find("embed_tokens"), 12, "embed_hidden");
  write_file(path, file);
  model = open_model(untied.dir());
  CHECK(model.spec.tied_embeddings);
  CHECK(model.names.embedding == "lm_head.weight");

  write_file(path, original);
  file = original;  // both are there and the same
  {
    const Checkpoint checkpoint(untied.dir());
    const Tensor embedding = checkpoint.tensor("model.embed_tokens.weight", 61, 24);
    const Tensor head = checkpoint.tensor("lm_head.weight", 61, 24);
    const auto bytes_of = [](const Tensor& tensor) {
      return std::string(static_cast<const char*>(tensor.data),
                         static_cast<size_t>(tensor.bytes()));
    };
    file.replace(file.find(bytes_of(head)), bytes_of(head).size(), bytes_of(embedding));
  }
  write_file(path, file);
  model = open_model(untied.dir());
  CHECK(model.spec.tied_embeddings);
  CHECK(model.names.embedding == "model.embed_tokens.weight");

  const TinyModel tied({.tied = true});
  CHECK(open_model(tied.dir()).spec.tied_embeddings);
}

TEST_CASE("a mutated config is an error or a model that computes") {
  const std::string configs[] = {
      config_of("LlamaForCausalLM", R"(, "rope_scaling": {"type": "linear", "factor": 2})"),
      config_of(kQwen2, R"(, "use_sliding_window": true, "sliding_window": 3,
          "max_window_layers": 1)"),
      config_of(kQwen3, R"(, "head_dim": 8, "eos_token_id": 5)"),
      config_of("Qwen3MoeForCausalLM", R"(, "num_experts": 5, "num_experts_per_tok": 2,
          "moe_intermediate_size": 9, "decoder_sparse_step": 2, "mlp_only_layers": [3])"),
      config_of(kGemma, R"(, "head_dim": 8, "sliding_window": 3, "sliding_window_pattern": 2)")};
  const std::string alphabet = "0123456789[]{},:\"-eE.tfn \\\0\xFF";
  std::mt19937 random(9);
  int errors = 0, computed = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    std::string config = configs[random() % std::size(configs)];
    for (uint32_t i = 0, n = 1 + random() % 3; i < n; ++i) {
      const size_t at = random() % config.size();
      const char c = alphabet[random() % alphabet.size()];
      switch (random() % 4) {
        case 0: config.insert(at, 1, c); break;
        case 1: config.erase(at, 1 + random() % 4); break;
        default: config[at] = c; break;
      }
    }
    CAPTURE(config);
    TempDir dir;
    write_file(dir / "config.json", config);
    try {
      int64_t elements = 0;
      const OpenedModel model = open_model(dir.path(), WeightSource::kDummy);
      for (const auto& tensor : needed_tensors(model.spec, model.names)) {
        elements += tensor.rows * tensor.cols;
      }
      if (elements > 1 << 20) continue;
      ModelRunner runner(dir.path(), DType::kF32, available_isas().back(), 1, WeightSource::kDummy);
      runner.start(4);
      CHECK(runner.run({0, 0, 0}, {2})[0].size() == static_cast<size_t>(model.spec.vocab));
      ++computed;
    } catch (const Error&) {
      ++errors;
    }
  }
  CHECK(errors > 300);
  CHECK(computed > 100);
}
