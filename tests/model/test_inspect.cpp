#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "core/error.h"
#include "model/inspect.h"
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
  CHECK(model.stored[0].parameters == model.parameters);
  CHECK(model.stored[0].bytes == 4 * model.parameters);
  CHECK(model.num_files == 1);
}

TEST_CASE("every reason against a model is told, and open_model tells the first of them") {
  const std::string config = R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 24,
      "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 61,
      "quantization_config": {"bits": 4}, "num_local_experts": 8, "hidden_act": "relu",
      "mlp_bias": true, "attention_bias": true, "partial_rotary_factor": 0.5,
      "layer_types": ["sliding_attention", "linear_attention"],
      "rope_scaling": {"rope_type": "yarn", "factor": 4}})";
  Problems problems;
  const InspectedModel model = inspect(config, problems);
  for (const char* field :
       {"quantization_config", "num_local_experts", "hidden_act", "mlp_bias", "attention_bias",
        "partial_rotary_factor", "has 'sliding_attention'", "linear_attention", "yarn"}) {
    CAPTURE(field);
    CHECK(count(problems, field) == 1);
  }
  CHECK(problems.all().size() == 9);
  CHECK(model.spec.hidden == 24);
  CHECK(model.parameters > 0);
  const TempDir dir;
  write_file(dir / "config.json", config);
  CHECK_THROWS_WITH_AS((void)open_model(dir.path(), WeightSource::kDummy),
                       doctest::Contains("quantization_config"), Error);
}

TEST_CASE("an unknown family has sizes as far as config.json gives them") {
  Problems problems;
  const InspectedModel model =
      inspect(R"({"architectures": ["MixtralForCausalLM"], "model_type": "mixtral",
      "hidden_size": 64, "num_hidden_layers": 3, "num_local_experts": 8, "num_attention_heads": 4})",
              problems);
  CHECK(count(problems, "MixtralForCausalLM") == 1);
  CHECK(count(problems, "num_local_experts") == 1);
  CHECK(problems.all().size() == 2);
  CHECK(model.model_type == "mixtral");
  CHECK(model.spec.hidden == 64);
  CHECK(model.spec.layers.size() == 3);
  CHECK(model.parameters == 0);
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
  CHECK(count(problems, "6 more tensors") == 1);
  CHECK(problems.all().size() == 4);
  CHECK(model.stored.size() == 1);
}

TEST_CASE("what cannot be read is a problem beside the others") {
  Problems problems;
  inspect("{", problems, WeightSource::kFiles);
  CHECK(count(problems, "not JSON") == 1);
  CHECK(count(problems, "model.safetensors") == 1);
  Problems of_generation;
  const TinyModel files;
  write_file(files.dir() + "/generation_config.json", R"({"top_k": "many"})");
  inspect_model(files.dir(), WeightSource::kFiles, of_generation);
  CHECK(count(of_generation, "top_k") == 1);
  CHECK(of_generation.all().size() == 1);
}
