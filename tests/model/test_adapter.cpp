// LoRA adapters against logits of peft's merge_and_unload (tools/goldens/make_lora_goldens.py), and
// what is refused of them.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <filesystem>
#include <random>
#include <string>

#include "core/error.h"
#include "model/adapter.h"
#include "model/inspect.h"
#include "tests/support/golden_rows.h"
#include "tests/support/model_runner.h"
#include "tests/support/recorded_adapter.h"
#include "tests/support/support.h"
#include "tests/support/tiny_adapter.h"
#include "tests/support/tiny_model.h"

using namespace pagedinfer;

namespace {

using simdjson::dom::element;

// Calls visit(name, record, directory of the model, directory of the adapter).
template <class Visit>
void for_each_adapter(const Visit& visit) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir() + "/tests/data/adapters")) {
    const std::string name = entry.path().stem();
    INFO(name);
    simdjson::dom::parser parser;
    const element record = parser.load(entry.path());
    const TempDir dir, adapter;
    write_recorded(record, dir.path(), adapter.path());
    visit(name, record, dir.path(), adapter.path());
    ++count;
  }
  CHECK(count >= 21);
}

// What a tiny model with an adapter is refused for; "" if it is not.
std::string refusal_of(const std::string& config, const std::vector<AdapterTensor>& tensors,
                       const TinyModelOptions& options = {}) {
  const TinyModel files(options);
  OpenedModel model = open_model(files.dir());
  const TempDir dir;
  write_adapter(dir.path(), config, tensors);
  try {
    open_adapter(dir.path(), model);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<AdapterTensor> usual_tensors(const TinyAdapterOptions& options = {},
                                         const TinyModelOptions& of_model = {}) {
  const TinyModel files(of_model);
  return adapter_tensors(open_model(files.dir()), options);
}

void check_contains(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  CHECK(text.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("float32 logits of models with merged adapters are peft's") {
  for_each_adapter([](const std::string& name, element record, const std::string& dir,
                      const std::string& adapter) {
    ModelRunner runner(dir, DType::kF32, available_isas().back(), 1, WeightSource::kDummy, {},
                       Quantization::kNone, adapter);
    float worst = 0.0f;
    for (const element sequence : record["sequences"]) {
      worst = std::max(worst, float32_error(runner, sequence));
    }
    CHECK(worst <= 1e-4f);
    MESSAGE(fmt::format("{}: largest difference {:.1e} of the largest logit", name, worst));
  });
}

TEST_CASE("merged weights have the same bits on every instruction set and number of threads") {
  for_each_adapter(
      [](const std::string&, element record, const std::string& dir, const std::string& adapter) {
        const element sequence = record["sequences"].at(0);
        for (const auto& [compute, quantize] : {std::pair(DType::kF32, Quantization::kNone),
                                                {DType::kBF16, Quantization::kNone},
                                                {DType::kBF16, Quantization::kInt8}}) {
          CAPTURE(name_of(compute));
          std::vector<std::vector<float>> right;
          for (const CpuIsa isa : available_isas()) {
            CAPTURE(name_of(isa));
            ModelRunner runner(dir, compute, isa, isa == CpuIsa::kPortable ? 1 : 3,
                               WeightSource::kDummy, {}, quantize, adapter);
            const auto rows = rows_of(runner, sequence);
            if (right.empty()) right = rows;
            CHECK(rows == right);
          }
        }
      });
}

TEST_CASE("an adapter is refused for every field that would change other weights than it says") {
  const auto tensors = usual_tensors();
  const std::pair<const char*, const char*> kRefused[] = {
      {R"("use_dora": true)", "use_dora: found true, expected nothing: what it asks for"},
      {R"("modules_to_save": ["lm_head"])", R"(modules_to_save: found ["lm_head"], expected)"},
      {R"("bias": "lora_only")", "bias: found lora_only, expected none"},
      {R"("lora_bias": true)", "lora_bias: found true"},
      {R"("use_qalora": true)", "use_qalora: found true"},
      {R"("layer_replication": [[0, 1], [0, 2]])", "layer_replication: found [[0,1],[0,2]]"},
      {R"("target_parameters": ["experts"])", "target_parameters: found"},
      {R"("trainable_token_indices": [1, 2])", "trainable_token_indices: found [1,2]"},
      {R"("alora_invocation_tokens": [1])", "alora_invocation_tokens: found [1]"},
      {R"("megatron_config": {"a": 1})", "megatron_config: found"},
      {R"("kasa_config": {"beta": 1e-4})", "kasa_config: found"},
      {R"("a_field_of_the_future": "on")", "a_field_of_the_future: found \"on\""},
      {R"("init_lora_weights": "pissa")", "init_lora_weights: found \"pissa\", expected one that"},
      {R"("init_lora_weights": "olora")", "init_lora_weights: found \"olora\""},
      {R"("init_lora_weights": 1)", "init_lora_weights: found 1"},
      {R"("peft_type": "IA3")", "peft_type: found IA3, expected LORA; merge the adapter"},
      {R"("r": 0)", "/adapter_config.json: r: found 0, expected an integer from 1"},
      {R"("r": 4.5)", "r: found 4.5"},
      {R"("lora_alpha": "8")", "lora_alpha: found \"8\""},
      {R"("rank_pattern": {"q_proj": 0})", "rank_pattern.q_proj: found 0"},
      {R"x("rank_pattern": {"(": 2})x", "is no regular expression"},
      {R"("alpha_pattern": {"q_proj": null, "k{,2}": 1})", "'{,' is not supported"},
      {R"("target_modules": null)", "target_modules: found nothing"},
      {R"("target_modules": 3)", "target_modules: found 3"},
      {R"("target_modules": [])", "target_modules: found nothing, expected a matrix"},
      {R"x("target_modules": "(")x", "'target_modules' '(' is no regular expression"},
      {R"("target_modules": ".*(q|v|down)_proj", "layers_to_transform": 1)",
       "'layers_to_transform' is there, but target_modules is not a list"},
      {R"("target_modules": ["q_proj", "k_prj"])",
       "target_modules: found k_prj, expected a matrix"},
      {R"("target_modules": "model.nothing")", "target_modules: found model.nothing"},
      {R"("layers_to_transform": [0], "layers_pattern": ["h+"])", "layers_pattern: found h+"},
      {R"("layers_to_transform": -1)", "layers_to_transform: found -1"},
  };
  for (const auto& [field, message] : kRefused) {
    check_contains(refusal_of(adapter_config({}, fmt::format(", {}", field)), tensors), message);
  }
  for (const char* const field :
       {R"("use_dora": false, "modules_to_save": null, "target_parameters": [], "new": {})",
        R"("init_lora_weights": "gaussian", "fan_in_fan_out": true, "lora_dropout": 0.1)",
        R"("megatron_core": "megatron.core", "qalora_group_size": 16, "bias": "none")",
        R"x("target_modules": ".*\\.(q_proj|v_proj|down_proj)")x"}) {
    CHECK(refusal_of(adapter_config({}, fmt::format(", {}", field)), tensors) == "");
  }
}

TEST_CASE("layers_to_transform chooses among ends of names, not among whole names") {
  const std::string config = R"({"peft_type": "LORA", "r": 4, "layers_to_transform": [0],
      "target_modules": ["model.layers.1.self_attn.q_proj", "v_proj"]})";
  const auto of = [](const char* q, const char* v) { return usual_tensors({.targets = {q, v}}); };
  CHECK(refusal_of(config, of("layers.1.self_attn.q_proj", "layers.0.self_attn.v_proj")) == "");
  check_contains(refusal_of(config, of("layers.1.self_attn.q_proj", "v_proj")),
                 "layers.1.self_attn.v_proj.lora_A.weight' is of no matrix of the model that");
  check_contains(refusal_of(config, of("q_proj", "layers.0.self_attn.v_proj")),
                 "layers.0.self_attn.q_proj.lora_A.weight' is of no matrix of the model that");
}

TEST_CASE("all-linear means the matrices of layers, not embedding and output") {
  const std::string config = R"({"peft_type": "LORA", "r": 4, "target_modules": "all-linear")";
  CHECK(refusal_of(config + "}", usual_tensors({.targets = kAllMatrices})) == "");
  for (const char* const other : {"lm_head", "embed_tokens"}) {
    auto targets = kAllMatrices;
    targets.emplace_back(other);
    check_contains(refusal_of(config + "}", usual_tensors({.targets = targets})),
                   fmt::format("{}.lora_", other));
  }
  auto targets = kAllMatrices;
  targets.erase(targets.begin());
  check_contains(refusal_of(config + "}", usual_tensors({.targets = targets})),
                 "no tensor 'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight'");
  check_contains(refusal_of(config + R"(, "layers_to_transform": [0]})",
                            usual_tensors({.targets = kAllMatrices})),
                 "'layers_to_transform' is there, but target_modules is not a list");
}

TEST_CASE("an adapter whose tensors are not those of its targets is refused by their names") {
  const TinyAdapterOptions options;
  const std::string config = adapter_config(options);
  const auto usual = usual_tensors();
  CHECK(refusal_of(config, usual) == "");
  const std::string first = usual[0].name, second = usual[1].name;
  const auto changed = [&](const auto& change) {
    std::vector<AdapterTensor> tensors = usual;
    change(tensors);
    return refusal_of(config, tensors);
  };
  check_contains(changed([](auto& t) { t.erase(t.begin()); }),
                 "adapter_model.safetensors: no tensor '" + first + "'");
  check_contains(changed([](auto& t) { t.erase(t.begin() + 1); }), "no tensor '" + second + "'");
  check_contains(changed([](auto& t) {
                   t[0].shape = {3, 24};
                 }),
                 "tensor '" + first + "' has shape [3, 24], expected [4, 24]");
  check_contains(changed([](auto& t) {
                   t[1].shape = {32, 5};
                 }),
                 "tensor '" + second + "' has shape [32, 5], expected [32, 4]");
  check_contains(changed([](auto& t) { t[1].shape = {4, 32}; }), "expected [32, 4]");
  for (const char* const name :
       {"base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight",
        "base_model.model.model.layers.7.self_attn.q_proj.lora_B.weight",
        "base_model.model.lm_head.weight",
        "base_model.model.model.embed_tokens.base_layer.weight"}) {
    check_contains(changed([&](auto& t) {
                     t.push_back({name, {4, 24}});
                   }),
                   fmt::format("tensor '{}' is of no matrix of the model that", name));
  }
  std::string text = refusal_of(adapter_config({.rank = 5}), usual);
  check_contains(text, "expected [5, 24]");
}

TEST_CASE("all that is wrong with an adapter is told at once") {
  const TinyModel files;
  const OpenedModel model = open_model(files.dir());
  const TempDir dir;
  TinyAdapterOptions options;
  auto tensors = adapter_tensors(model, options);
  tensors[0].shape = {4, 25};
  tensors.push_back({"stray", {1}});
  write_adapter(dir.path(), adapter_config(options, R"(, "use_dora": true, "bias": "all")"),
                tensors);
  Problems problems;
  const Adapter adapter(dir.path(), adapter_targets(model.spec, model.names, model.known_names),
                        &problems);
  REQUIRE(problems.all().size() == 4);
  check_contains(problems.all()[0], "use_dora");
  check_contains(problems.all()[1], "bias");
  check_contains(problems.all()[2], "has shape [4, 25]");
  check_contains(problems.all()[3], "'stray'");
}

TEST_CASE("all that adapter_config.json says wrongly is told at once, without weights too") {
  const TinyModel files;
  const TempDir dir;
  write_file(dir / "adapter_config.json", R"x({"peft_type": "LORA", "use_dora": true, "bias": 3,
      "r": 0, "lora_alpha": "8", "use_rslora": 1, "rank_pattern": {"q_proj": 0, "(": 2},
      "alpha_pattern": 4, "target_modules": [5], "exclude_modules": "(",
      "layers_to_transform": -1, "layers_pattern": ["h+"]})x");
  Problems problems;
  (void)inspect_model(files.dir(), WeightSource::kFiles, problems, dir.path());
  const std::vector<std::string> said = {"use_dora: found true",
                                         "bias: found 3",
                                         "r: found 0",
                                         "lora_alpha: found \"8\"",
                                         "use_rslora: found 1",
                                         "rank_pattern.q_proj: found 0",
                                         "rank_pattern.('",
                                         "alpha_pattern: found 4",
                                         "target_modules: found 5",
                                         "exclude_modules' '(' is no regular expression",
                                         "layers_to_transform: found -1",
                                         "layers_pattern: found h+",
                                         "has no adapter_model.safetensors"};
  REQUIRE(problems.all().size() == said.size());
  for (size_t i = 0; i < said.size(); ++i) check_contains(problems.all()[i], said[i]);
}

TEST_CASE("an embedding that is also the output is not merged, one that is not is") {
  for (const char* const target : {"embed_tokens", "lm_head"}) {
    const TinyAdapterOptions options = {.targets = {target}};
    const std::string config = adapter_config(options);
    CHECK(refusal_of(config, usual_tensors(options)) == "");
    const std::string text =
        refusal_of(config, usual_tensors(options, {.tied = true}), {.tied = true});
    check_contains(text, fmt::format("target_modules: found {}{}, expected other matrices",
                                     std::string(target) == "lm_head" ? "" : "model.", target));
  }
}

TEST_CASE("an embedding that was saved with an adapter takes the model's place") {
  const TinyModel files;
  const TempDir dir;
  const TinyAdapterOptions options = {.targets = {"embed_tokens"}};
  OpenedModel model = open_model(files.dir());
  auto tensors = adapter_tensors(model, options);
  const std::string name = "base_model.model.model.embed_tokens.base_layer.weight";
  tensors.push_back({name, {61, 24}});
  write_adapter(dir.path(), adapter_config(options), tensors);
  open_adapter(dir.path(), model);
  const Tensor replacement = model.adapter->replacement_of("model.embed_tokens.weight");
  std::vector<float> expected(61 * 24);
  fill_dummy(name, {0.0f, 0.5f}, {expected.data(), DType::kF32, 61, 24, 24});
  CHECK(std::equal(expected.begin(), expected.end(), replacement.row<float>(0)));
  const auto ops = make_cpu_ops({.compute = DType::kF32});
  const Weights weights = load_weights(model, DType::kF32, ops->memory());
  const LowRank update = model.adapter->update_of("model.embed_tokens.weight", 0, 61);
  float sum = 0.0f;
  for (int k = 0; k < 4; ++k) sum += update.b.row<float>(k)[5] * update.a.row<float>(7)[k];
  CHECK(weights.embedding.row<float>(5)[7] == expected[5 * 24 + 7] + sum * 2.0f);
}

TEST_CASE("an adapter is added to the numbers of a quantized checkpoint") {
  for (const char* const name : {"gptq-4-order", "fp8-rows-fused"}) {
    CAPTURE(name);
    const std::string dir = source_dir() + "/tests/data/quantized/" + name;
    const TempDir lora;
    write_adapter_for(dir, lora.path(), {.targets = {"o_proj", "down_proj"}});
    const OpenedModel plain = open_model(dir);
    OpenedModel tuned = open_model(dir);
    open_adapter(lora.path(), tuned);
    const auto ops = make_cpu_ops({.compute = DType::kF32});
    const Tensor before = load_weights(plain, DType::kF32, ops->memory()).layers[0].down;
    const Tensor after = load_weights(tuned, DType::kF32, ops->memory()).layers[0].down;
    const LowRank update = tuned.adapter->update_of(tuned.names.layers[0].down, 0, before.rows);
    int num_wrong = 0;
    for (int64_t i = 0; i < before.rows; ++i) {
      for (int64_t c = 0; c < before.cols; ++c) {
        float sum = 0.0f;
        for (int k = 0; k < 4; ++k) sum += update.b.row<float>(i)[k] * update.a.row<float>(k)[c];
        num_wrong += after.row<float>(i)[c] != before.row<float>(i)[c] + sum * 2.0f;
      }
    }
    CHECK(num_wrong == 0);
  }
}

constexpr const char* kPictures =
    R"({"architectures": ["Gemma3ForConditionalGeneration"], "text_config": {
  "hidden_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
  "intermediate_size": 30, "vocab_size": 46, "num_hidden_layers": 2, "sliding_window": 24}})";

TEST_CASE("adapters of pictures' models are found by either way of naming the text model") {
  for (const char* const root : {"language_model.model.", "model.language_model."}) {
    CAPTURE(root);
    const TempDir dir, adapter;
    write_file(dir / "config.json", kPictures);
    OpenedModel model = open_model(dir.path(), WeightSource::kDummy);
    const std::string prefix = fmt::format("base_model.model.{}layers.1.mlp.up_proj.lora_", root);
    write_adapter(adapter.path(),
                  R"({"peft_type": "LORA", "r": 2, "target_modules": ["layers.1.mlp.up_proj"]})",
                  {{prefix + "A.weight", {2, 24}}, {prefix + "B.weight", {30, 2}}});
    open_adapter(adapter.path(), model);
    CHECK(model.adapter->num_matrices() == 1);
    CHECK(model.adapter->num_parameters() == 2 * (24 + 30));
    CHECK(model.adapter->changes("language_model.model.layers.1.mlp.up_proj.weight"));
  }
}

TEST_CASE("an adapter that changes the tower for pictures too is refused by that name") {
  for (const std::string root : {"", "model."}) {
    CAPTURE(root);
    const TempDir dir, adapter;
    write_file(dir / "config.json", kPictures);
    OpenedModel model = open_model(dir.path(), WeightSource::kDummy);
    const std::string text = root.empty() ? "language_model.model." : "model.language_model.";
    std::vector<AdapterTensor> tensors;
    for (const std::string& module :
         {text + "layers.1.mlp.up_proj",
          root + "vision_tower.vision_model.encoder.layers.0.mlp.fc1",
          root + "vision_tower.vision_model.encoder.layers.1.mlp.fc1"}) {
      for (const auto& [name, shape] :
           {std::pair("A", std::vector<int64_t>{2, 24}), {"B", std::vector<int64_t>{30, 2}}}) {
        tensors.push_back({fmt::format("base_model.model.{}.lora_{}.weight", module, name), shape});
      }
    }
    write_adapter(
        adapter.path(),
        R"({"peft_type": "LORA", "r": 2, "target_modules": ["layers.1.mlp.up_proj", "fc1"]})",
        tensors);
    Problems problems;
    const Adapter opened(adapter.path(),
                         adapter_targets(model.spec, model.names, model.known_names), &problems);
    CHECK(opened.num_matrices() == 1);
    REQUIRE(problems.all().size() == 1);
    check_contains(problems.all()[0],
                   fmt::format("adapter_model.safetensors: has 4 tensors of {}vision_tower, a part "
                               "of the model that is not run; merge the adapter with",
                               root));
  }
}

TEST_CASE("a folder that holds no adapter is told apart") {
  const TinyModel files;
  OpenedModel model = open_model(files.dir());
  const TempDir dir;
  const auto text = [&](const std::string& folder) {
    try {
      open_adapter(folder, model);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  check_contains(text(dir / "nothing"), "nothing: no such folder");
  check_contains(text(dir.path()), "has no adapter_model.safetensors");
  write_file(dir / "adapter_model.bin", "");
  check_contains(text(dir.path()), "it holds adapter_model.bin, PyTorch's own format");
  write_file(dir / "adapter_model.safetensors", safetensors_of({}));
  check_contains(text(dir.path()), "adapter_config.json");
  write_file(dir / "adapter_config.json", "[]");
  check_contains(text(dir.path()), "adapter_config.json: is []");
  write_file(dir / "adapter_model.safetensors", "12345678");
  check_contains(text(dir.path()), "adapter_model.safetensors: the header");

  // A folder of a hub cache.
  const TempDir cache;
  std::filesystem::create_directories(cache / "refs");
  write_file(cache / "refs/main", "abc");
  write_adapter_for(files.dir(), cache / "snapshots/abc");
  CHECK(text(cache.path()) == "");
  CHECK(model.adapter->weights_path() == cache / "snapshots/abc/adapter_model.safetensors");
}

TEST_CASE("hostile adapters are refused or merged, and never read beyond their tensors") {
  const TinyModel files;
  const TempDir dir;
  const std::string config = adapter_config({});
  write_adapter_for(files.dir(), dir.path());
  const std::string weights = read_file(dir / "adapter_model.safetensors");
  int num_refused = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    std::string bad_config = config, bad_weights = weights;
    std::string& changed = seed % 2 == 0 ? bad_config : bad_weights;
    // Of the weights the header.
    const size_t size = seed % 2 == 0 ? config.size() : weights.find("}}") + 2;
    const std::string_view letters = "{}[]\",:0123456789-.eE()*+?\\|_ntruelorafs\xff";
    for (uint32_t i = 0; i <= random() % 4; ++i) {
      const size_t at = random() % size;
      if (random() % 3 == 0) {
        changed.erase(at, random() % 9);
      } else {
        changed[at] = letters[random() % letters.size()];
      }
    }
    write_file(dir / "adapter_config.json", bad_config);
    write_file(dir / "adapter_model.safetensors", bad_weights);
    OpenedModel model = open_model(files.dir());
    try {
      open_adapter(dir.path(), model);
      const auto ops = make_cpu_ops({.compute = DType::kF32});
      (void)load_weights(model, DType::kF32, ops->memory());
    } catch (const Error& error) {
      check_contains(error.what(), "adapter_");
      ++num_refused;
    }
  }
  CHECK(num_refused > 100);
}
