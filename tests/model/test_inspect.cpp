#include <doctest/doctest.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <filesystem>
#include <string>

#include "core/error.h"
#include "model/inspect.h"
#include "tests/support/changed_checkpoint.h"
#include "tests/support/support.h"
#include "tests/support/tiny_model.h"

using namespace pagedinfer;

namespace {

// How many of the problems have these words.
int count(const Problems& problems, const std::string& words) {
  int found = 0;
  for (const std::string& problem : problems.all()) {
    if (problem.find(words) != std::string::npos) ++found;
  }
  return found;
}

InspectedModel inspect(const std::string& config, Problems& problems,
                       WeightSource source = WeightSource::kDummy) {
  const TempDir dir;
  write_file(dir / "config.json", config);
  return inspect_model(dir.path(), source, problems);
}

}  // namespace

TEST_CASE("a supported model has no problems, and the numbers of its files") {
  const TinyModel files;
  Problems problems;
  const InspectedModel model = inspect_model(files.dir(), WeightSource::kFiles, problems);
  CHECK(problems.all().empty());
  const OpenedModel opened = open_model(files.dir());
  CHECK(model.architecture == "LlamaForCausalLM");
  CHECK(model.spec.layers.size() == opened.spec.layers.size());
  CHECK(model.spec.eos_tokens == opened.spec.eos_tokens);
  REQUIRE(model.stored.size() == 1);
  CHECK(model.stored[0].type == "F32");
  CHECK(model.stored[0].parameters == model.parameters.all);
  CHECK(model.stored[0].bytes == 4 * model.parameters.all);
  CHECK(model.num_files == 1);
}

TEST_CASE("another architecture is named before anything else, whatever else stands against it") {
  simdjson::dom::parser parser;
  int number = 0, with_experts = 0;
  for (const simdjson::dom::element config :
       parser.load_many(source_dir() + "/tests/data/other_architectures.jsonl")) {
    const std::string name(std::string_view(config["architectures"].at(0)));
    CAPTURE(name);
    const std::string expected =
        fmt::format("'architectures' is '{}', which is not supported; supported are: Llama", name);
    const TempDir dir;  // without weights
    write_file(dir / "config.json", simdjson::minify(config));
    Problems problems;
    const InspectedModel model = inspect_model(dir.path(), WeightSource::kDummy, problems);
    CHECK(model.architecture == name);
    REQUIRE_FALSE(problems.all().empty());
    CHECK(problems.all().front().find(expected) != std::string::npos);
    const bool has_experts = count(problems, "experts are not supported") > 0;
    CHECK(has_experts ==
          (simdjson::minify(config).find("\"num_experts_per_tok\"") != std::string::npos));
    with_experts += has_experts;
    CHECK_THROWS_WITH_AS((void)open_model(dir.path()), doctest::Contains(expected.c_str()), Error);
    ++number;
  }
  CHECK(number >= 20);
  CHECK(with_experts >= 5);
}

TEST_CASE("every reason against a model is told, and open_model tells the first of them") {
  const std::string config = R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 24,
      "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 61,
      "quantization_config": {"bits": 4}, "num_local_experts": 8, "hidden_act": "relu",
      "mlp_bias": 3, "attention_bias": "no", "partial_rotary_factor": 0.5,
      "layer_types": ["sliding_attention", "linear_attention"],
      "rope_scaling": {"rope_type": "mrope", "factor": 4}})";
  Problems problems;
  const InspectedModel model = inspect(config, problems);
  for (const char* field :
       {"quantization_config", "num_local_experts", "hidden_act", "mlp_bias", "attention_bias",
        "partial_rotary_factor", "found sliding_attention", "linear_attention", "mrope"}) {
    CAPTURE(field);
    CHECK(count(problems, field) == 1);
  }
  CHECK(problems.all().size() == 9);
  CHECK(model.spec.hidden == 24);
  CHECK(model.parameters.all > 0);
  const TempDir dir;
  write_file(dir / "config.json", config);
  CHECK_THROWS_WITH_AS((void)open_model(dir.path(), WeightSource::kDummy),
                       doctest::Contains("quantization_config"), Error);
}

TEST_CASE("a field that cannot be read hides no other reason, and no size is told for it") {
  Problems problems;
  const InspectedModel model = inspect(
      R"({"architectures": ["Qwen3ForCausalLM"], "hidden_size": "y", "num_hidden_layers": "x",
      "num_attention_heads": 32, "hidden_act": "gelu", "rms_norm_eps": "e", "vocab_size": 61,
      "tie_word_embeddings": 3, "attention_bias": 1, "sliding_window": "w",
      "use_sliding_window": true, "num_experts": "n", "is_causal": 0, "eos_token_id": "e",
      "rope_scaling": {"rope_type": "llama3", "factor": "f", "low_freq_factor": "l",
                       "high_freq_factor": 4, "original_max_position_embeddings": "o"}})",
      problems);
  for (const char* field :
       {"hidden_size", "num_hidden_layers", "hidden_act", "rms_norm_eps", "tie_word_embeddings",
        "attention_bias", "sliding_window", "num_experts", "is_causal", "eos_token_id",
        "rope_scaling.factor", "low_freq_factor", "original_max_position_embeddings"}) {
    CAPTURE(field);
    CHECK(count(problems, field) == 1);
  }
  CHECK(problems.all().size() == 13);
  CHECK(model.spec.hidden == 0);
  CHECK(model.spec.layers.empty());
  CHECK(model.spec.vocab == 61);
  CHECK(model.spec.heads == 32);
  CHECK_FALSE(model.tied_embeddings.has_value());
  CHECK(model.parameters.all == 0);
}

TEST_CASE("sizes that contradict each other are told beside the other reasons") {
  for (const bool has_head_dim : {false, true}) {
    CAPTURE(has_head_dim);
    Problems problems;
    const InspectedModel model =
        inspect(fmt::format(R"({{"architectures": ["LlamaForCausalLM"], "hidden_size": 24,
          "num_hidden_layers": 2, "num_attention_heads": 5, "num_key_value_heads": 2, {}
          "vocab_size": 61, "hidden_act": "gelu", "quantization_config": {{"bits": 4}},
          "rope_scaling": {{"rope_type": "weird"}}}})",
                            has_head_dim ? R"("head_dim": 3,)" : ""),
                problems);
    for (const char* words :
         {"num_key_value_heads: found 2", "hidden_act", "weird", "quantization_config"}) {
      CAPTURE(words);
      CHECK(count(problems, words) == 1);
    }
    CHECK(count(problems, "num_attention_heads") == (has_head_dim ? 0 : 1));
    CHECK(count(problems, "head_dim: found 3") == (has_head_dim ? 1 : 0));
    CHECK(problems.all().size() == 5);
    CHECK(model.spec.heads == 0);
    CHECK(model.spec.kv_heads == 0);
    CHECK(model.spec.head_dim == 0);
    CHECK(model.parameters.all == 0);
    CHECK(model.spec.layers.size() == 2);
  }
}

TEST_CASE("layers whose window cannot be read have none that is known") {
  const auto windows = [](const std::string& fields) {
    Problems problems;
    const InspectedModel model = inspect(
        fmt::format(R"({{"hidden_size": 24, "num_attention_heads": 4, "num_key_value_heads": 4,
          "vocab_size": 61, "num_hidden_layers": 2, {}}})",
                    fields),
        problems);
    CHECK(problems.all().size() == 1);
    REQUIRE(model.spec.layers.size() == 2);
    CHECK(model.spec.layers[0].window == model.spec.layers[1].window);
    return model.spec.layers[0].window;
  };
  for (const std::string type : {"mistral", "qwen3", "gemma3_text"}) {
    CAPTURE(type);
    const std::string family = fmt::format(R"("model_type": "{}", "head_dim": 8, )", type);
    CHECK(windows(family + R"("layer_types": [1])") < 0);
    CHECK(windows(family + R"("layer_types": ["sliding_attention"])") < 0);
    CHECK(windows(family + R"("use_sliding_window": true, "sliding_window": "w")") < 0);
    CHECK(windows(family + R"("sliding_window": null, "use_sliding_window": true,
                              "layer_types": ["sliding_attention", "full_attention"])") < 0);
  }
  CHECK(windows(R"("model_type": "gpt9")") < 0);
  CHECK(windows(R"("model_type": "qwen3", "head_dim": 8, "hidden_act": "gelu")") == 0);
}

TEST_CASE("an unknown family has sizes as far as config.json gives them") {
  Problems problems;
  const InspectedModel model =
      inspect(R"({"architectures": ["PhimoeForCausalLM"], "model_type": "phimoe",
      "hidden_size": 64, "num_hidden_layers": 3, "num_local_experts": 8, "num_attention_heads": 4})",
              problems);
  CHECK(count(problems, "PhimoeForCausalLM") == 1);
  CHECK(count(problems, "num_local_experts") == 1);
  CHECK(problems.all().size() == 2);
  CHECK(model.model_type == "phimoe");
  CHECK(model.spec.hidden == 64);
  CHECK(model.spec.layers.size() == 3);
  CHECK(model.spec.intermediate == 0);
  CHECK_FALSE(model.tied_embeddings.has_value());
  CHECK(model.parameters.all == 0);
  Problems of_empty;
  const InspectedModel empty = inspect(R"({"model_type": "gpt9"})", of_empty);
  CHECK(empty.spec.hidden == 0);
  CHECK(empty.spec.heads == 0);
  CHECK(empty.spec.layers.empty());
}

TEST_CASE("tensors that are missing are told, the first ones by name") {
  const TinyModel files;
  std::string config = read_file(files.dir() + "/config.json");
  const std::string layers = "\"num_hidden_layers\": 2";
  REQUIRE(config.find(layers) != std::string::npos);
  config.replace(config.find(layers), layers.size(), "\"num_hidden_layers\": 3");
  write_file(files.dir() + "/config.json", config);
  Problems problems;
  const InspectedModel model = inspect_model(files.dir(), WeightSource::kFiles, problems);
  CHECK(count(problems, "model.layers.2.") == 3);
  CHECK(count(problems, "more tensors that are missing or are not what config.json expects: 6") ==
        1);
  CHECK(problems.all().size() == 4);
  CHECK(model.stored.size() == 1);
}

TEST_CASE("tensors that the model does not use are told in a note, the first ones by name") {
  const TinyModel files;
  const auto notes = [&] {
    Problems problems;
    const InspectedModel model = inspect_model(files.dir(), WeightSource::kFiles, problems);
    CHECK(problems.all().empty());
    CHECK(open_model(files.dir()).weight_notes == model.weight_notes);
    return model.weight_notes;
  };
  CHECK(notes().empty());

  const std::string path = files.dir() + "/model.safetensors";
  Entries entries = read_entries(files.dir());
  const std::string bias = "model.layers.0.self_attn.q_proj.bias";
  entries[bias] = {"F32", {4}, std::string(16, '\0')};
  entries["model.layers.0.self_attn.rotary_emb.inv_freq"] = {"F32", {1}, "abcd"};
  write_file(path, safetensors_of(entries));
  CHECK(notes().empty());
  entries[bias].bytes.back() = 1;
  write_file(path, safetensors_of(entries));
  CHECK(notes() == std::vector<std::string>{
                       "the checkpoint has 1 tensor that the model does not use: " + bias});

  std::string config = read_file(files.dir() + "/config.json");
  const std::string layers = "\"num_hidden_layers\": 2";
  config.replace(config.find(layers), layers.size(), "\"num_hidden_layers\": 1");
  write_file(files.dir() + "/config.json", config);
  CHECK(notes() == std::vector<std::string>{
                       fmt::format("the checkpoint has 10 tensors that the model does not use: {}, "
                                   "model.layers.1.input_layernorm.weight, "
                                   "model.layers.1.mlp.down_proj.weight and others",
                                   bias)});
}

TEST_CASE("what cannot be read is a problem beside the others") {
  Problems problems;
  inspect("{", problems, WeightSource::kFiles);
  CHECK(count(problems, "not JSON") == 1);
  CHECK(count(problems, "model.safetensors") == 1);
  Problems of_generation;
  const TinyModel files;
  write_file(files.dir() + "/generation_config.json", R"({"top_k": "many", "do_sample": 1,
      "min_length": -1, "min_new_tokens": "m", "suppress_tokens": 1, "forced_eos_token_id": "f",
      "bad_words_ids": 2, "eos_token_id": "e"})");
  inspect_model(files.dir(), WeightSource::kFiles, of_generation);
  CHECK(count(of_generation, "top_k") == 1);
  CHECK(of_generation.all().size() == 8);
}
