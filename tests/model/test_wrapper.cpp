// Models for pictures: their text model in checkpoints of every layout, and what their config.json
// means. tests/data/families has logits of transformers for each of them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "model/inspect.h"
#include "model/model.h"
#include "model/rope_frequencies.h"
#include "tests/support/model_runner.h"
#include "tests/support/support.h"
#include "tests/support/tiny_adapter.h"
#include "tests/support/wrapped_checkpoint.h"

using namespace pagedinfer;

namespace {

constexpr const char *kQwen25Vl = "Qwen2_5_VLForConditionalGeneration",
                     *kQwen3Vl = "Qwen3VLForConditionalGeneration",
                     *kMistral3 = "Mistral3ForConditionalGeneration",
                     *kGemma3 = "Gemma3ForConditionalGeneration";

// A quantized checkpoint of a text model, the model for pictures that has such a text model, and
// fields in which the two have other defaults.
struct Wrapped {
  std::string text, architecture, fields = {};
};
const Wrapped kWrapped[] = {
    {"awq-biases", kQwen25Vl, R"("rms_norm_eps": 1e-6, "rope_theta": 1e4, )"},
    {"ct-int-mixed", kQwen25Vl, R"("rms_norm_eps": 1e-6, "rope_theta": 1e4, )"},
    {"fp8-small-blocks-tied", kQwen3Vl, R"("rope_theta": 1e4, )"},
    {"fp8-tensor-e5m2", kMistral3, R"("tie_word_embeddings": false, )"},
    {"ct-packed-8-odd", kGemma3},
};

std::string text_dir(const Wrapped& wrapped) {
  return source_dir() + "/tests/data/quantized/" + wrapped.text;
}

// Calls visit(wrapped, names, the directory of the model for pictures) for all layouts of all.
template <class Visit>
void for_each_wrapped(const Visit& visit) {
  for (const Wrapped& wrapped : kWrapped) {
    for (const WrappedNames& names : kAllWrappedNames) {
      CAPTURE(wrapped.text);
      CAPTURE(names.root);
      const TempDir dir;
      write_wrapped(text_dir(wrapped), wrapped.architecture, names, dir.path(), wrapped.fields);
      visit(wrapped, names, dir.path());
    }
  }
}

std::vector<std::vector<float>> logits_of(const std::string& dir, const std::string& lora = "") {
  ModelRunner runner(dir, DType::kF32, available_isas().back(), 1, WeightSource::kFiles, {},
                     Quantization::kNone, lora);
  runner.start(16);
  return runner.run({3, 1, 4, 1, 5, 9, 2, 6, 42}, {0, 4, 8});
}

// Renames the only tensor of this name, to one of the same length.
void hide_tensor(const std::string& dir, const std::string& name) {
  std::string file = read_file(dir + "/model.safetensors");
  const size_t at = file.find("\"" + name + "\"");
  REQUIRE(at != std::string::npos);
  file[at + 1] = 'X';
  write_file(dir + "/model.safetensors", file);
}

ModelSpec read_wrapper(const std::string& config) {
  const TempDir dir;
  write_file(dir / "config.json", config);
  return open_model(dir.path(), WeightSource::kDummy).spec;
}

std::string refusal_of(const std::string& config) {
  try {
    (void)read_wrapper(config);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

constexpr const char* kSizes = R"("hidden_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 40, "head_dim": 12,
    "vocab_size": 61)";

std::string wrap(const std::string& architecture, const std::string& text_fields,
                 const std::string& fields = "") {
  return fmt::format(R"({{"architectures": ["{}"]{}, "text_config": {{{}{}}}}})", architecture,
                     fields, kSizes, text_fields);
}

}  // namespace

TEST_CASE("a wrapped text model has the bits of the model alone, wherever its tensors are") {
  for_each_wrapped([](const Wrapped& wrapped, const WrappedNames& names, const std::string& dir) {
    CHECK(logits_of(dir) == logits_of(text_dir(wrapped)));
    Problems problems;
    const InspectedModel model = inspect_model(dir, WeightSource::kFiles, problems);
    CHECK(problems.all().empty());
    CHECK(model.architecture == wrapped.architecture);
    CHECK_FALSE(model.quantization.empty());
    auto notes = open_model(text_dir(wrapped)).weight_notes;
    const bool is_qwen = wrapped.architecture == kQwen25Vl || wrapped.architecture == kQwen3Vl;
    if (!names.part.ends_with(is_qwen ? "visual." : "vision_tower.")) {  // a part of other models
      notes.push_back("the checkpoint has 1 tensor that the model does not use: " + names.part +
                      "x.weight");
    }
    CHECK(model.weight_notes == notes);
    CHECK(open_model(dir).names.embedding == names.root + "embed_tokens.weight");
  });
}

TEST_CASE("lists of quantized modules may have the names of another layout than the file") {
  const Wrapped& wrapped = kWrapped[1];
  const auto expected = logits_of(text_dir(wrapped));
  for (const WrappedNames& names : kAllWrappedNames) {
    for (const WrappedNames& in_config : kAllWrappedNames) {
      CAPTURE(names.root);
      CAPTURE(in_config.root);
      const TempDir dir;
      write_wrapped(text_dir(wrapped), wrapped.architecture, names, dir.path(), wrapped.fields,
                    &in_config);
      REQUIRE(
          read_file(dir / "config.json").find("\"" + in_config.root + "layers.1.mlp.down_proj") !=
          std::string::npos);
      CHECK(logits_of(dir.path()) == expected);
    }
  }
}

TEST_CASE("an adapter of a wrapped model changes what it changes in the model alone") {
  for (const Wrapped& wrapped : kWrapped) {
    const TempDir lora;
    write_adapter_for(text_dir(wrapped), lora.path(), {.targets = kAllMatrices});
    const auto expected = logits_of(text_dir(wrapped), lora.path());
    CHECK(expected != logits_of(text_dir(wrapped)));
    for (const WrappedNames& of_adapter : kAllWrappedNames) {
      const TempDir other;
      write_file(other / "adapter_config.json", read_file(lora / "adapter_config.json"));
      write_file(other / "adapter_model.safetensors",
                 renamed_tensors(read_file(lora / "adapter_model.safetensors"), of_adapter,
                                 "base_model.model.", false));
      for (const WrappedNames& names : kAllWrappedNames) {
        CAPTURE(wrapped.text);
        CAPTURE(of_adapter.root);
        CAPTURE(names.root);
        const TempDir dir;
        write_wrapped(text_dir(wrapped), wrapped.architecture, names, dir.path(), wrapped.fields);
        CHECK(logits_of(dir.path(), other.path()) == expected);
      }
    }
  }
}

TEST_CASE("an adapter of a part that is not run is refused by the part's name") {
  const std::pair<std::string, std::vector<std::string>> models[] = {
      {kQwen25Vl, {"visual"}},
      {kQwen3Vl, {"visual"}},
      {kMistral3, {"vision_tower", "multi_modal_projector"}},
      {kGemma3, {"vision_tower", "multi_modal_projector"}}};
  for (const auto& [architecture, parts] : models) {
    const TempDir dir;
    write_file(dir / "config.json", wrap(architecture, ""));
    OpenedModel model = open_model(dir.path(), WeightSource::kDummy);
    for (const std::string& part : parts) {
      for (const std::string root : {"", "model."}) {
        CAPTURE(architecture);
        CAPTURE(part);
        CAPTURE(root);
        const TempDir adapter;
        const std::string module = fmt::format("base_model.model.{}{}.fc1.lora_", root, part);
        write_adapter(adapter.path(), R"({"peft_type": "LORA", "r": 2, "target_modules": ["fc1"]})",
                      {{module + "A.weight", {2, 24}}, {module + "B.weight", {40, 2}}});
        std::string refusal;
        try {
          open_adapter(adapter.path(), model);
        } catch (const Error& error) {
          refusal = error.what();
        }
        const std::string expected = fmt::format("has 2 tensors of {}{}, a part of", root, part);
        CHECK_MESSAGE(refusal.find(expected) != std::string::npos, refusal);
      }
    }
  }
}

TEST_CASE("a tensor that a wrapped model lacks is named as its checkpoint would name it") {
  for_each_wrapped([](const Wrapped&, const WrappedNames& names, const std::string& dir) {
    const std::string path = dir + "/model.safetensors", whole = read_file(path);
    for (const std::string part : {"embed_tokens", "norm", "layers.1.input_layernorm",
                                   "layers.0.post_attention_layernorm"}) {
      const std::string name = fmt::format("{}{}.weight", names.root, part);
      CAPTURE(name);
      hide_tensor(dir, name);
      Problems problems;
      (void)inspect_model(dir, WeightSource::kFiles, problems);
      REQUIRE(problems.all().size() >= 1);
      CHECK(problems.all()[0].find(fmt::format("'{}'", name)) != std::string::npos);
      CHECK_THROWS_WITH_AS((void)logits_of(dir), doctest::Contains(name.c_str()), Error);
      write_file(path, whole);
    }
  });
}

TEST_CASE("a Qwen 2.5 VL means the same with text_config and without") {
  const std::string fields = R"(, "rope_theta": 7e4, "tie_word_embeddings": true,
      "use_sliding_window": true, "sliding_window": 5, "max_window_layers": 1, "eos_token_id": 9,
      "rope_scaling": {"type": "mrope", "mrope_section": [2, 2, 2]})";
  const ModelSpec flat =
      read_wrapper(fmt::format(R"({{"architectures": ["{}"], {}{}}})", kQwen25Vl, kSizes, fields));
  const ModelSpec inner = read_wrapper(wrap(kQwen25Vl, fields));
  for (const ModelSpec& spec : {flat, inner}) {
    CHECK(spec.tied_embeddings);
    CHECK(spec.qkv_bias);
    CHECK(spec.norm_eps == 1e-5f);
    CHECK(spec.layers[0].window == 0);
    CHECK(spec.layers[1].window == 5);
    CHECK(spec.eos_tokens == std::vector<TokenId>{9});
    CHECK(spec.ropes.at(0).inv_freq == flat.ropes.at(0).inv_freq);
  }
  for (const char* const architecture : {kQwen3Vl, kMistral3, kGemma3}) {
    CHECK(refusal_of(fmt::format(R"({{"architectures": ["{}"], {}}})", architecture, kSizes))
              .find("text_config: found nothing, expected an object") != std::string::npos);
  }
}

TEST_CASE("what a Qwen's text_config leaves out has the defaults of Qwen's models for pictures") {
  const ModelSpec two = read_wrapper(wrap(kQwen25Vl, R"(, "use_sliding_window": true)"));
  CHECK(two.ropes.at(0).inv_freq == default_frequencies(1e6, 12));
  CHECK(two.max_positions == 32768);
  CHECK(two.layers[1].window == 0);
  const ModelSpec three = read_wrapper(wrap(kQwen3Vl, R"(, "use_sliding_window": true,
      "sliding_window": 3, "max_window_layers": 0)"));
  CHECK(three.ropes.at(0).inv_freq == default_frequencies(5e5, 12));
  CHECK(three.max_positions == 128000);
  CHECK(three.layers[1].window == 0);  // it has none whatever the file says
  const ModelSpec whole =
      read_wrapper(R"({"architectures": ["Qwen2_5_VLForConditionalGeneration"]})");
  CHECK(whole.vocab == 152064);
  CHECK(whole.hidden == 8192);
  CHECK(whole.intermediate == 29568);
  CHECK(whole.layers.size() == 80);
  CHECK(whole.kv_heads == 8);
  CHECK(whole.eos_tokens == std::vector<TokenId>{151645});
}

TEST_CASE("embeddings are tied if the model for pictures says so, or its text model") {
  struct Case {
    const char* architecture;
    const char *outer, *inner;  // "": the field is absent
    bool tied;
  };
  const Case cases[] = {
      {kQwen25Vl, "", "", false},      {kQwen25Vl, "false", "true", true},
      {kQwen25Vl, "true", "", true},   {kQwen3Vl, "", "", false},
      {kQwen3Vl, "", "true", true},    {kQwen3Vl, "true", "false", true},
      {kMistral3, "", "", true},       {kMistral3, "", "false", false},
      {kMistral3, "false", "", false}, {kGemma3, "", "", true},
      {kGemma3, "false", "", false},   {kGemma3, "true", "", true},
  };
  for (const Case& c : cases) {
    CAPTURE(c.architecture);
    CAPTURE(c.outer);
    CAPTURE(c.inner);
    const auto field = [](const std::string& value) {
      return value.empty() ? value : fmt::format(R"(, "tie_word_embeddings": {})", value);
    };
    CHECK(read_wrapper(wrap(c.architecture, field(c.inner), field(c.outer))).tied_embeddings ==
          c.tied);
  }
}

TEST_CASE("the text model of a Mistral 3 is of the family that text_config names") {
  const ModelSpec usual = read_wrapper(wrap(kMistral3, ""));
  CHECK(usual.layers[0].window == 4096);  // the default of a Mistral
  CHECK(read_wrapper(wrap(kMistral3, R"(, "model_type": "mistral")")).layers[0].window == 4096);
  const ModelSpec alternating = read_wrapper(wrap(kMistral3, R"(, "model_type": "ministral",
      "sliding_window": 3, "layer_types": ["full_attention", "sliding_attention"])"));
  CHECK(alternating.layers[0].window == 0);
  CHECK(alternating.layers[1].window == 3);
  CHECK(refusal_of(wrap(kMistral3, R"(, "model_type": "phi3")"))
            .find("text_config.model_type: found phi3, expected one of mistral, ministral") !=
        std::string::npos);
}

TEST_CASE("what no text model supports is refused in text_config too") {
  for (const char* const architecture : {kQwen25Vl, kQwen3Vl, kMistral3, kGemma3}) {
    CAPTURE(architecture);
    CHECK(refusal_of(wrap(architecture, R"(, "num_experts": 8)"))
              .find("'text_config.num_experts' is there") != std::string::npos);
    CHECK(refusal_of(wrap(architecture, R"(, "is_causal": false)"))
              .find("'text_config.is_causal' is not true") != std::string::npos);
  }
}

TEST_CASE("ends of a wrapped model are those of its outermost file that has some") {
  const std::string inner = R"(, "eos_token_id": 5)", outer = R"(, "eos_token_id": [1, 6])";
  CHECK(read_wrapper(wrap(kQwen3Vl, inner)).eos_tokens == std::vector<TokenId>{5});
  CHECK(read_wrapper(wrap(kQwen3Vl, inner, outer)).eos_tokens == std::vector<TokenId>{1, 6});
  const TempDir dir;
  write_file(dir / "config.json", wrap(kQwen3Vl, inner, outer));
  write_file(dir / "generation_config.json", R"({"eos_token_id": [7, 8], "temperature": 0.7,
      "do_sample": true})");
  const OpenedModel model = open_model(dir.path(), WeightSource::kDummy);
  CHECK(model.spec.eos_tokens == std::vector<TokenId>{7, 8});
}

TEST_CASE("made-up weights have the type that text_config names, where config.json names none") {
  const auto type_of = [](const std::string& config) {
    const TempDir dir;
    write_file(dir / "config.json", config);
    return file_dtype(open_model(dir.path(), WeightSource::kDummy));
  };
  CHECK(type_of(wrap(kQwen3Vl, R"(, "dtype": "float16")")) == DType::kF16);
  CHECK(type_of(wrap(kQwen3Vl, R"(, "dtype": "float16")", R"(, "dtype": "float32")")) ==
        DType::kF32);
}
