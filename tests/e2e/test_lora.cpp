// --lora: what is the same whatever a run does, where it shows, and what is refused.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "tests/support/e2e.h"
#include "tests/support/tiny_adapter.h"

namespace pagedinfer {
namespace {

std::string bundled() { return source_dir() + "/datasets/story-llama"; }

Json summary_of(const Words& flags) {
  const TempDir dir;
  write_file(dir / "in.jsonl", "{\"prompt\": \"Hi\", \"max_tokens\": 2}\n");
  const Ended ended =
      run(Words{"--input", dir / "in.jsonl", "--quiet", "--stats", dir / "stats.jsonl"} + flags);
  REQUIRE_MESSAGE(ended.exit_code == 0, ended.err);
  return summary_beside(dir / "stats.jsonl");
}

}  // namespace

TEST_CASE("completions with an adapter are the same bytes in every configuration") {
  const TempDir dir;
  write_adapter_for(bundled(), dir / "lora");
  check_same_in_every_configuration({"--lora", dir / "lora"});
}

TEST_CASE("completions with an adapter and weights in int8 are the same bytes too") {
  const TempDir dir;
  write_adapter_for(bundled(), dir / "lora", {.targets = kAllMatrices, .type = "BF16"});
  check_same_in_every_configuration({"--lora", dir / "lora", "--quantize", "int8"});
}

TEST_CASE("an adapter of scale 0 changes no completion") {
  const TempDir dir;
  write_adapter_for(bundled(), dir / "lora", {.targets = kAllMatrices, .alpha = 0});
  const std::string lines = varied_prompts();
  CHECK(answer(lines, {"--lora", dir / "lora"}).out == answer(lines).out);
  // In float32 the merged weights are float32, which hold those of the checkpoint.
  CHECK(answer(lines, {"--lora", dir / "lora", "--dtype", "float32"}).out ==
        answer(lines, {"--dtype", "float32"}).out);
}

TEST_CASE("summary, plan and info tell of an adapter, and the plan counts merged weights") {
  const TempDir dir;
  write_adapter_for(bundled(), dir / "lora", {.targets = kAllMatrices, .rank = 3});
  const Words lora = {"--lora", dir / "lora"};
  CHECK(summary_of({})["/config/lora"] == "null");
  const Json merged = summary_of(lora);
  CHECK(merged.text("/config/lora") == dir / "lora");
  const Words wide = {"--dtype", "float32"};
  // Matrices of layers in float32 take twice what those of the file do.
  CHECK(summary_of(lora + wide).number("/config/weight_bytes") >
        1.7 * summary_of(wide).number("/config/weight_bytes"));
  const Ended info = run_program(command(Words{"info", "--json"} + lora));
  REQUIRE_MESSAGE(info.exit_code == 0, info.out);
  const Json json(info.out);
  CHECK(json.integer("/adapter/matrices") == 42);
  CHECK(json.integer("/adapter/min_rank") == 3);
  CHECK(json.text("/adapter/file") == dir / "lora/adapter_config.json");
  CHECK(run_program(command(Words{"info"} + lora)).out.find("42 matrices of rank 3,") !=
        std::string::npos);
  CHECK(Json(run_program(command({"info", "--json"})).out)["/adapter"] == "null");
  write_adapter_for(bundled(), dir / "one", {.targets = {"layers.0.mlp.up_proj"}});
  CHECK(run_program(command({"info", "--lora", dir / "one"})).out.find("1 matrix of rank 4,") !=
        std::string::npos);
  write_file(dir / "in.jsonl", "{\"prompt\": \"Hi\", \"max_tokens\": 2}\n");
  CHECK(run_program(command(Words{"plan", "--input", dir / "in.jsonl"} + lora)).exit_code == 0);
}

TEST_CASE("an adapter for a checkpoint of 4 bits says which type its matrices become") {
  const TempDir dir;
  const std::string four_bits = source_dir() + "/tests/data/quantized/awq-groups";
  write_adapter_for(four_bits, dir / "lora");  // three of the seven matrices of both layers
  write_file(dir / "in.jsonl", "{\"prompt_token_ids\": [1, 2, 3], \"max_tokens\": 2}\n");
  const Words lora = {"--model", four_bits, "--lora", dir / "lora"};
  const Words flags = lora + Words{"--input", dir / "in.jsonl"};
  const auto has = [](const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  const std::string in_words = ", but 6 matrices of the adapter in ";
  const Ended ended = run(flags + Words{"--overwrite", "--stats", dir / "stats.jsonl"});
  REQUIRE_MESSAGE(ended.exit_code == 0, ended.err);
  const std::string note = "6 matrices that the adapter changes are dequantized, into float32";
  has(ended.err, note);
  has(summary_beside(dir / "stats.jsonl")["/notes"], note);
  has(run_program(command(Words{"plan"} + flags)).out, in_words + "float32, the cache");
  has(run_program(command(Words{"info"} + lora)).out, in_words + "float32");
  has(run_program(command(Words{"info", "--dtype", "bfloat16"} + lora)).out, in_words + "bfloat16");
  for (const char* const other : {"none", "int8", "int4"}) {
    CAPTURE(other);
    const Ended silent = run(flags + Words{"--overwrite", "--quantize", other});
    CHECK(silent.exit_code == 0);
    CHECK(silent.err.find("that the adapter changes") == std::string::npos);
  }
}

TEST_CASE("a run goes on with the adapter that it began with only") {
  const TempDir dir;
  write_adapter_for(bundled(), dir / "one");
  write_adapter_for(bundled(), dir / "same");
  write_adapter_for(bundled(), dir / "numbers", {.amplitude = 0.2f});
  write_adapter_for(bundled(), dir / "scale", {.alpha = 9});
  write_file(dir / "in.jsonl", "{\"prompt\": \"Hi\", \"max_tokens\": 2}\n");
  const Words flags = {"--input", dir / "in.jsonl", "--quiet"};
  CHECK(run(flags + Words{"--lora", dir / "one"}).exit_code == 0);
  const auto refused = [&](const Words& more, const std::string& message) {
    const Ended other = run(flags + Words{"--resume"} + more);
    CHECK(other.exit_code == 1);
    CHECK_MESSAGE(other.err.find(message) != std::string::npos, other.err);
  };
  refused({}, "began with lora adapter_config.json = ");
  refused({"--lora", dir / "numbers"}, "began with lora adapter_model.safetensors = ");
  refused({"--lora", dir / "scale"}, "began with lora adapter_config.json = ");
  CHECK(run(flags + Words{"--resume", "--lora", dir / "same"}).exit_code == 0);
}

TEST_CASE("verify compares a run with an adapter with one without, and with itself") {
  const TempDir dir;
  write_adapter_for(bundled(), dir / "lora");
  write_file(dir / "in.jsonl", "{\"prompt\": \"Once upon\", \"max_tokens\": 20}\n");
  const Words verify = {"verify", "--input", dir / "in.jsonl", "--quiet"};
  CHECK(run_program(command(verify + Words{"--lora", dir / "lora", "--logits"})).exit_code == 0);
  const std::string with = "--lora " + (dir / "lora");
  CHECK(run_program(command(verify + Words{"--a", with, "--b", ""})).exit_code == 2);
}

TEST_CASE("bench runs a workload with an adapter") {
  const TempDir dir;
  write_adapter_for(bundled(), dir / "lora");
  const Ended ended =
      run_program(command({"bench", "--workload", "random", "--requests", "2", "--prompt-tokens",
                           "4", "--output-tokens", "2", "--quiet", "--lora", dir / "lora"}));
  CHECK_MESSAGE(ended.exit_code == 0, ended.err);
}

TEST_CASE("an adapter that cannot be merged is refused before anything is written") {
  const TempDir dir;
  write_adapter_for(bundled(), dir / "lora");
  write_adapter_for(bundled(), dir / "tied", {.targets = {"lm_head"}});
  write_file(dir / "in.jsonl", "{\"prompt\": \"Hi\", \"max_tokens\": 2}\n");
  const auto refused = [&](const Words& flags, const std::string& message) {
    const Ended ended = run(Words{"--input", dir / "in.jsonl", "--quiet"} + flags);
    CHECK(ended.exit_code == 1);
    CHECK_MESSAGE(ended.err.find(message) != std::string::npos, ended.err);
    CHECK(names_in(dir.path()) == std::set<std::string>{"in.jsonl", "lora", "tied"});
  };
  refused({"--lora", dir / "nothing"}, "nothing: no such folder");
  refused({"--lora", dir / "tied"},
          fmt::format("; pagedinfer info --model story-llama --lora {} says what", dir / "tied"));
  refused({"--lora", dir / "tied"}, "target_modules: found lm_head, expected other matrices");
  refused({"--lora", dir / "lora", "--model", "story-gemma3"}, "adapter_model.safetensors: ");
  refused({"--lora", dir / "lora", "--weights", "dummy"},
          "--lora: the weights of --weights dummy are none");
  refused(
      {"--lora", dir / "lora", "--overwrite", "--output", dir / "lora/adapter_model.safetensors"},
      "is what --output names");
  const Ended info = run_program(command({"info", "--lora", dir / "tied"}));
  CHECK(info.exit_code == 1);
  CHECK(info.out.find("target_modules: found lm_head") != std::string::npos);
}

}  // namespace pagedinfer
