// `pagedinfer info`: what a model is, and the prompts of a file.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "tests/support/e2e.h"
#include "tests/support/tiny_model.h"

namespace pagedinfer {
namespace {

namespace fs = std::filesystem;

std::string qwen() { return source_dir() + "/datasets/story-qwen3"; }

Ended info(const Words& flags) { return run_program(command(Words{"info"} + flags)); }

}  // namespace

TEST_CASE("info describes a model as its files do, for people and for scripts") {
  const Ended text = info({"--model", qwen()});
  CHECK(text.exit_code == 0);
  CHECK(text.err == "");
  for (const char* words : {"supported       yes\n", "Qwen3ForCausalLM (qwen3)", "parameters",
                            "byte-level BPE of tokenizer.json", "\nWhat is 3 + 4?"}) {
    CHECK_MESSAGE(text.out.find(words) != std::string::npos, words);
  }
  const Ended ended = info({"--model", qwen(), "--json"});
  CHECK(ended.exit_code == 0);
  const Json json(ended.out.substr(0, ended.out.size() - 1));
  CHECK(json["/supported"] == "true");
  CHECK(json["/problems"] == "[]");
  CHECK(json["/layers"] == Json(read_file(qwen() + "/config.json"))["/num_hidden_layers"]);
  CHECK(json.text("/weights/0/type") != "");
  CHECK(json.text("/computed_in") == "bfloat16 on cpu");
  CHECK(json.text("/cached_in") == "bfloat16");
  CHECK(json.integer("/weights/0/parameters") == json.integer("/parameters"));
  CHECK(json.text("/example").find("What is 3 + 4?") != std::string::npos);
  CHECK(json["/ends_of_turn"] == R"([{"text":"<|im_end|>","id":2}])");
  CHECK(json.text("/chat_template") == "tokenizer_config.json");
}

TEST_CASE(
    "info tells what a model computes beside what all do, and the summary how rope is scaled") {
  const TinyModel gemma({.family = tiny_gemma2(5, 2)});
  CHECK(info({"--model", gemma.dir()}).out.find("scores at 2.5, logits at 4.5\n") !=
        std::string::npos);
  const TinyModel phi({.family = tiny_phi3(9)});  // trained for 64 positions
  const std::string text = info({"--model", phi.dir()}).out;
  for (const char* words : {"supported       yes\n", "rotates 6 of 8 channels",
                            "other frequencies if max-model-len is above 64"}) {
    CHECK_MESSAGE(text.find(words) != std::string::npos, words);
  }
  const Ended ended = info({"--model", phi.dir(), "--json"});
  const Json json(ended.out.substr(0, ended.out.size() - 1));
  CHECK(json.text("/traits/rope").find("rotates 6 of 8 channels") != std::string::npos);
  const TempDir dir;
  write_file(dir / "in.jsonl", "{\"prompt_token_ids\": [1, 2], \"max_tokens\": 3}\n");
  for (const auto& [length, rope] : {std::pair{"64", "short"}, {"65", "long"}}) {
    const Ended done = run({"--input", dir / "in.jsonl", "--output", dir / "out", "--model",
                            phi.dir(), "--max-model-len", length, "--overwrite"});
    CHECK(done.exit_code == 0);
    CHECK(summary_beside(dir / "out.stats.jsonl").text("/config/rope") == rope);
  }
}

TEST_CASE("info says how a checkpoint is quantized, and a run computes it") {
  const std::string quantized = source_dir() + "/tests/data/quantized/";
  const Ended gptq = info({"--model", quantized + "gptq-4-order"});
  CHECK(gptq.exit_code == 0);
  CHECK(gptq.out.find("gptq, 4 bits, groups of 16; 14 of 16 matrices\n") != std::string::npos);
  CHECK(gptq.out.find("cached in       float16\n") != std::string::npos);
  // Products cannot keep such groups.
  CHECK(gptq.out.find("in the checkpoint's codes") == std::string::npos);
  const Ended ended = info({"--model", quantized + "fp8-small-blocks-tied", "--json"});
  const Json json(ended.out.substr(0, ended.out.size() - 1));
  CHECK(json.text("/quantization") == "fp8, blocks of 4 x 8; 14 of 15 matrices");
  CHECK(json.text("/notes/0").find("activations are not quantized") != std::string::npos);
  CHECK(info({"--model", qwen()}).out.find("quantization") == std::string::npos);

  for (const Words& flags : {Words{}, {"--quantize", "int8"}, {"--dtype", "float32"}}) {
    const Answers done = answer("{\"prompt_token_ids\": [1, 2, 3], \"max_tokens\": 4}\n",
                                Words{"--model", quantized + "fp8-blocks"} + flags);
    CHECK(done.exit_code == 0);
    CHECK(done.err.find("activations are not quantized") != std::string::npos);
  }
}

TEST_CASE("info tells the width of an MLP where a layer has one") {
  for (const TinyFamily& family : tiny_expert_families(9, 2)) {
    CAPTURE(family.architecture);
    const TinyModel model({.family = family});
    const std::string text = info({"--model", model.dir()}).out;
    CHECK(text.find("experts         ") != std::string::npos);
    const bool has_mlp = family.architecture == "Qwen3MoeForCausalLM";  // in one of two layers
    CHECK((text.find(" in the MLP") != std::string::npos) == has_mlp);
  }
}

TEST_CASE("info lists every reason why a run refuses a model, and the run points to info") {
  const TinyModel files(
      {.family = {.architecture = "PhimoeForCausalLM", .fields = R"(, "num_local_experts": 8,
                                               "quantization_config": {"a": 1})"}});
  write_file(files.dir() + "/tokenizer.json", R"({"model": {"type": "Unigram"}})");
  const Ended ended = info({"--model", files.dir()});
  CHECK(ended.exit_code == 1);
  for (const char* words : {"no, for 4 reasons", "PhimoeForCausalLM", "num_local_experts",
                            "quantization_config", "Unigram"}) {
    CHECK_MESSAGE(ended.out.find(words) != std::string::npos, words);
  }
  const Answers refused = answer("{\"prompt\": \"x\"}\n", {"--model", files.dir()});
  CHECK(refused.exit_code == 1);
  CHECK(refused.err.find("pagedinfer info --model " + files.dir()) != std::string::npos);
}

TEST_CASE("info leaves out what faults of config.json hide, and a run has the same reason") {
  const TempDir dir;
  fs::copy(qwen(), dir / "m");
  std::string config = read_file(qwen() + "/config.json");
  const auto set = [&](const std::string& name, const std::string& value) {
    config.insert(config.rfind('}'), fmt::format(", \"{}\": {}", name, value));
    write_file(dir / "m/config.json", config);
  };
  set("head_dim", "512");
  const Ended wide = info({"--model", dir / "m"});
  CHECK(wide.out.find("heads of 512 channels: the CPU computes at most 256") != std::string::npos);
  const Answers refused =
      answer("{\"prompt\": \"x\"}\n", {"--model", dir / "m", "--weights", "dummy"});
  CHECK(refused.exit_code == 1);
  CHECK(refused.err.find("heads of 512 channels") != std::string::npos);

  set("num_attention_heads", "5");
  set("num_hidden_layers", "\"x\"");
  set("tie_word_embeddings", "\"x\"");
  set("head_dim", "7");
  const Ended text = info({"--model", dir / "m"});
  CHECK(text.exit_code == 1);
  CHECK(text.out.find("no, for 4 reasons") != std::string::npos);
  for (const char* words : {"\nheads", "parameters ", "embeddings tied", "\nlayers          2"}) {
    CHECK_MESSAGE(text.out.find(words) == std::string::npos, words);
  }
  const Ended ended = info({"--model", dir / "m", "--json"});
  const Json json(ended.out.substr(0, ended.out.size() - 1));
  CHECK(json.has("/hidden_size"));
  CHECK(json.has("/vocab_size"));
  for (const char* name : {"/layers", "/heads", "/kv_heads", "/head_dim", "/parameters",
                           "/tied_embeddings", "/windows"}) {
    CHECK_MESSAGE(!json.has(name), name);
  }
}

TEST_CASE("info without a model, or with a flag it has no use for, is refused") {
  for (const Words& flags :
       {Words{"--model", "no/such/model"}, Words{"--ids"}, Words{"--output", "x"}}) {
    const Ended ended = info(flags);
    CHECK(ended.exit_code == 1);
    CHECK(ended.out == "");
    CHECK(ended.err.starts_with("pagedinfer: "));
  }
}

TEST_CASE("rendered prompts are those that a run computes") {
  const TempDir dir;
  const std::string lines =
      "{\"id\": \"a\", \"messages\": [{\"role\": \"user\", \"content\": \"What is 3 + 4?\"}], "
      "\"max_tokens\": 1}\n"
      "{\"prompt\": \"Nora\", \"max_tokens\": 1, \"prompt_logprobs\": 0}\n"
      "{\"prompt\": 7}\n";
  write_file(dir / "in.jsonl", lines);
  const Words flags = {"--model", qwen()};
  const Ended text = info(flags + Words{"--render", dir / "in.jsonl"});
  CHECK(text.exit_code == 2);
  CHECK(text.out.starts_with("line 1, "));
  CHECK(text.out.find("What is 3 + 4?<|im_end|>\n") != std::string::npos);
  CHECK(text.out.find("line 3: invalid_value: ") != std::string::npos);
  const Ended ids = info(flags + Words{"--render", dir / "in.jsonl", "--ids"});
  CHECK(ids.out.find("line 2, ") != std::string::npos);

  const std::vector<Json> shown =
      json_lines(info(flags + Words{"--render", dir / "in.jsonl", "--json"}).out);
  const Answers answers = answer(lines, flags + Words{"--token-ids"});
  REQUIRE(shown.size() == 3);
  REQUIRE(answers.records.size() == 3);
  CHECK(shown[0].text("/id") == "a");
  CHECK(static_cast<int64_t>(shown[0].integers("/prompts/0/token_ids").size()) ==
        answers.records[0].integer("/prompt_tokens"));
  CHECK(shown[1].text("/prompts/0/text") == "Nora");
  CHECK(shown[2]["/error"] == answers.records[2]["/error"]);
}

TEST_CASE("prompts are rendered without weights, with a model that no run takes") {
  const TempDir dir;
  fs::copy(qwen(), dir / "m");
  fs::remove(dir / "m/model.safetensors");
  write_file(dir / "in.jsonl", "{\"prompt\": \"Nora\"}\n");
  const Ended ended = info({"--model", dir / "m", "--render", dir / "in.jsonl"});
  CHECK(ended.exit_code == 0);
  CHECK(ended.out.find("tokens:\nNora\n") != std::string::npos);
}

}  // namespace pagedinfer
