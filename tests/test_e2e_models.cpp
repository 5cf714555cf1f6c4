// Models other than the default one, through the program.
#include <doctest/doctest.h>

#include <string>

#include "e2e.h"
#include "support.h"
#include "tiny_model.h"

using namespace pagedinfer;

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
