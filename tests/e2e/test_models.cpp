// Models other than the default one, through the program.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "tests/support/e2e.h"
#include "tests/support/paths.h"
#include "tests/support/support.h"
#include "tests/support/tiny_adapter.h"
#include "tests/support/tiny_model.h"
#include "tests/support/wrapped_checkpoint.h"

using namespace pagedinfer;
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kConfig = R"({"architectures": ["Gemma3ForCausalLM"], "hidden_size": 32,
  "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16,
  "intermediate_size": 48, "vocab_size": 60, "max_position_embeddings": 128, "sliding_window": 5,
  "sliding_window_pattern": 3, "eos_token_id": 59})";

}  // namespace

TEST_CASE("a config alone runs with made-up weights, on token ids") {
  const TempDir dir;
  write_file(dir / "config.json", kConfig);
  const std::string lines =
      "{\"prompt_token_ids\": [3, 1, 4, 1, 5, 9, 2, 6], \"max_tokens\": 12, \"ignore_eos\": true}\n"
      "{\"prompt\": \"words\"}\n"
      "{\"prompt_token_ids\": [60]}\n";
  const Words flags = {"--model", dir.path(), "--weights", "dummy"};
  const Answers answers = answer(lines, flags);
  CHECK(answers.exit_code == 2);
  REQUIRE(answers.records.size() == 3);
  CHECK(answers.records[0].text("/text") == "");
  CHECK(answers.records[0].integers("/token_ids").size() == 12);
  CHECK(answers.records[1].text("/error/code") == "no_tokenizer");
  CHECK(answers.records[2].text("/error/code") == "unknown_token_id");

  const Answers again = answer(
      lines, flags + Words{"--threads", "1", "--prefill-chunk-size", "3", "--block-size", "2"});
  CHECK(again.out == answers.out);
  const Answers other = answer(lines, {"--model", dir.path()});
  CHECK(other.exit_code == 1);
  CHECK(other.err.find("model.safetensors") != std::string::npos);
}

TEST_CASE("a run with made-up weights is not resumed with real ones") {
  const TinyModel files;
  const TempDir dir;
  write_file(dir / "in.jsonl", "{\"prompt_token_ids\": [3], \"max_tokens\": 2}\n");
  const Words flags = {"--input", dir / "in.jsonl", "--model", files.dir(), "--resume", "--quiet"};
  for (int i = 0; i < 2; ++i) CHECK(run(flags + Words{"--weights", "dummy"}).exit_code == 0);
  const Ended ended = run(flags);
  CHECK(ended.exit_code == 1);
  CHECK(ended.err.find("weights") != std::string::npos);
}

// The samples of this file that are an equal distance apart do not reach its end.
TEST_CASE("a run is not resumed with weights of which the last byte is another") {
  const TempDir dir;
  fs::copy(source_dir() + "/datasets/story-qwen3", dir / "m");
  write_file(dir / "in.jsonl", "{\"prompt_token_ids\": [3], \"max_tokens\": 2}\n");
  const Words flags = {"--input", dir / "in.jsonl", "--model", dir / "m", "--resume", "--quiet"};
  for (int i = 0; i < 2; ++i) CHECK(run(flags).exit_code == 0);
  std::string weights = read_file(dir / "m/model.safetensors");
  weights.back() = static_cast<char>(weights.back() ^ 1);
  write_file(dir / "m/model.safetensors", weights);
  const Ended ended = run(flags);
  CHECK(ended.exit_code == 1);
  CHECK(ended.err.find("model.safetensors") != std::string::npos);
}

TEST_CASE("records do not depend on how the path to the model is spelt") {
  const TempDir dir;
  fs::copy(bundled_model(), dir / "m");
  fs::create_directory(dir / "elsewhere");
  fs::copy(bundled_model(), dir / "elsewhere/m");
  fs::create_directory_symlink("m", dir / "link");
  write_file(dir / "in.jsonl", R"({"custom_id":"x","method":"POST","url":"/v1/completions",)"
                               R"("body":{"prompt":"Once","max_tokens":2}})"
                               "\n"
                               R"({"messages":[{"role":"user","content":"x"}]})"
                               "\n");
  write_file(dir / "m/chat_template.jinja", "{% if %}");
  write_file(dir / "elsewhere/m/chat_template.jinja", "{% if %}");
  const auto records_of = [&](const std::string& model, const Words& more = {"--overwrite"}) {
    const Words flags = {"--input", dir / "in.jsonl", "--output", dir / "out", "--quiet"};
    CHECK(run(flags + Words{"--model", model} + more).exit_code == 2);
    return read_file(dir / "out");
  };
  const std::string expected = records_of(dir / "m");
  CHECK(expected.find(R"("model":"m")") != std::string::npos);
  CHECK(expected.find("chat_template.jinja") != std::string::npos);
  CHECK(expected.find(fs::path(dir.path()).filename().string()) == std::string::npos);
  for (const char* spelling : {"m/", "./m", "link", "elsewhere/m/", "elsewhere/../m/."}) {
    CAPTURE(spelling);
    CHECK(records_of(dir / spelling) == expected);
    CHECK(records_of(dir / "m", {"--resume"}) == expected);
  }
  const Words named = {"--overwrite", "--served-model-name", "gpt \"4\""};
  CHECK(records_of(dir / "m", named).find(R"("model":"gpt \"4\"")") != std::string::npos);
  CHECK(summary_beside(dir / "out.stats.jsonl").text("/config/served_model_name") == "gpt \"4\"");
  const Ended other =
      run({"--input", dir / "in.jsonl", "--output", dir / "out", "--model", dir / "m", "--resume"});
  CHECK(other.exit_code == 1);
  CHECK(other.err.find(R"(began with served_model_name = "gpt \"4\"", found "m")") !=
        std::string::npos);
}

TEST_CASE("a model for pictures answers texts as its text model does, and refuses pictures") {
  const std::string text_model = source_dir() + "/datasets/story-qwen3";
  const TempDir dir;
  write_wrapped(text_model, "Qwen3VLForConditionalGeneration", kTextInside, dir / "m");
  for (const char* file : {"generation_config.json", "tokenizer.json", "tokenizer_config.json"}) {
    fs::copy(text_model + "/" + file, dir / "m");
  }
  write_adapter_for(text_model, dir / "lora");
  write_adapter_for(dir / "m", dir / "wrapped-lora");
  // Of the same numbers under other names.
  write_file(dir / "wrapped-lora/adapter_model.safetensors",
             renamed_tensors(read_file(dir / "lora/adapter_model.safetensors"), kTextInside,
                             "base_model.model.", false));
  const std::string
      chat = R"({"messages": [{"role": "user", "content": CONTENT}]})",
      texts = varied_prompts() +
              R"({"messages": [{"role": "user", "content": "What is 3 + 4? <|image_pad|>"}]})"
              "\n";
  const Words text = {"--model", text_model, "--served-model-name", "x"},
              pictures = {"--model", dir / "m", "--served-model-name", "x"};
  const Answers expected = answer(texts, text);
  CHECK(expected.exit_code == 0);
  CHECK(answer(texts, pictures).out == expected.out);
  const Answers tuned = answer(texts, text + Words{"--lora", dir / "lora"});
  CHECK(tuned.out != expected.out);
  CHECK(answer(texts, pictures + Words{"--lora", dir / "wrapped-lora"}).out == tuned.out);

  std::string lines = "{\"prompt\": \"Once\", \"max_tokens\": 2}\n";
  const std::string parts[] = {
      R"({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}})",
      R"({"type": "image", "image": "a.png"})", R"({"type": "input_image", "image_url": "a.png"})",
      R"({"type": "video", "video": "a.mp4"})", R"({"type": "input_audio", "input_audio": {}})"};
  for (const std::string& part : parts) {
    std::string line = chat;
    lines += line.replace(line.find("CONTENT"), 7,
                          "[{\"type\": \"text\", \"text\": \"See:\"}, " + part + "]") +
             "\n";
  }
  const Answers answers = answer(lines, pictures);
  CHECK(answers.exit_code == 2);
  REQUIRE(answers.records.size() == 6);
  CHECK_FALSE(answers.records[0].has("/error"));
  for (size_t i = 1; i < 6; ++i) {
    CHECK(answers.records[i].text("/error/code") == "unsupported");
    CHECK(answers.records[i].text("/error/message").find("messages[0].content[1].type") == 0);
    CHECK(answers.records[i].text("/error/message").find("this version supports text only") !=
          std::string::npos);
  }

  const Ended info = run_program(command({"info", "--model", dir / "m", "--json"}));
  CHECK(info.exit_code == 0);
  const Json json(info.out.substr(0, info.out.size() - 1));
  CHECK(json["/supported"] == "true");
  CHECK(json.text("/architecture") == "Qwen3VLForConditionalGeneration");
}
