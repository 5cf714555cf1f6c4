// Every setting reaches the run: by flag, by the model's own defaults, by line.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "settings/table.h"
#include "tests/support/e2e.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

// The settings that the summary of a run with these flags tells.
std::string settings(const TempDir& dir, const Words& flags) {
  const std::string input = dir / "in.jsonl";
  write_file(input, "{\"prompt\": \"Hi\", \"max_tokens\": 2}\n");
  const Ended ended = run(Words{"--input", input, "--output", dir / "out.jsonl", "--stats",
                                dir / "stats.jsonl", "--overwrite", "--quiet"} +
                          flags);
  REQUIRE_MESSAGE(ended.exit_code == 0, ended.err);
  return summary_beside(dir / "stats.jsonl")["/config"];
}

}  // namespace

TEST_CASE("every flag that was given is what the summary says was used") {
  const TempDir dir;
  const std::string config = settings(dir, {"--max-model-len",
                                            "300",
                                            "--threads",
                                            "1",
                                            "--cpu-isa",
                                            "portable",
                                            "--dtype",
                                            "float32",
                                            "--block-size",
                                            "8",
                                            "--num-blocks",
                                            "77",
                                            "--max-batch-size",
                                            "9",
                                            "--prefill-chunk-size",
                                            "11",
                                            "--max-prefill-chunks",
                                            "3",
                                            "--max-step-tokens",
                                            "55",
                                            "--admission-reserve",
                                            "0.3",
                                            "--max-tokens",
                                            "12",
                                            "--min-tokens",
                                            "1",
                                            "--temperature",
                                            "0.6",
                                            "--top-k",
                                            "13",
                                            "--top-p",
                                            "0.7",
                                            "--min-p",
                                            "0.01",
                                            "--repetition-penalty",
                                            "1.2",
                                            "--presence-penalty",
                                            "0.4",
                                            "--frequency-penalty",
                                            "0.5",
                                            "--seed",
                                            "18446744073709551615",
                                            "--stop",
                                            "a b",
                                            "--stop",
                                            "c",
                                            "--stop-token-ids",
                                            "5,6",
                                            "--ignore-eos",
                                            "--token-ids",
                                            "--limit",
                                            "7",
                                            "--shard",
                                            "0/3",
                                            "--prompt-field",
                                            "prompt",
                                            "--order",
                                            "completion"});
  for (const char* setting : {"\"max_model_len\":300",
                              "\"threads\":1",
                              "\"cpu_isa\":\"portable\"",
                              "\"dtype\":\"float32\"",
                              "\"block_size\":8",
                              "\"num_blocks\":77",
                              "\"max_batch_size\":9",
                              "\"prefill_chunk_size\":11",
                              "\"max_prefill_chunks\":3",
                              "\"max_step_tokens\":55",
                              "\"admission_reserve\":0.3",
                              "\"max_tokens\":12",
                              "\"min_tokens\":1",
                              "\"temperature\":0.6",
                              "\"top_k\":13",
                              "\"top_p\":0.7",
                              "\"min_p\":0.01",
                              "\"repetition_penalty\":1.2",
                              "\"presence_penalty\":0.4",
                              "\"frequency_penalty\":0.5",
                              "\"seed\":\"18446744073709551615\"",
                              "\"stop_token_ids\":[5,6]",
                              "\"ignore_eos\":true",
                              "\"token_ids\":true",
                              "\"limit\":7",
                              "\"shard\":\"0/3\"",
                              "\"prompt_field\":\"prompt\"",
                              "\"order\":\"completion\"",
                              "\"kv\":\"paged\""}) {
    CHECK_MESSAGE(config.find(setting) != std::string::npos, setting, " not in ", config);
  }
}

TEST_CASE("the summary tells every setting") {
  const TempDir dir;
  const std::string config = settings(dir, {});
  for (const Setting& setting : kSettings) {
    CAPTURE(setting.key);
    CHECK(config.find(fmt::format("\"{}\":", setting.key)) != std::string::npos);
  }
  for (const char* derived : {"\"device\":\"", "\"threads\":", "\"max_model_len\":4096",
                              "\"dtype\":\"bfloat16\"", "\"cpu_isa\":\"", "\"num_blocks\":",
                              "\"kv_memory\":", "\"max_step_tokens\":", "\"limit\":null"}) {
    CHECK_MESSAGE(config.find(derived) != std::string::npos, derived, " not in ", config);
    CHECK(config.find(std::string(derived) + "null") == std::string::npos);
  }
}

TEST_CASE("the model's own sampling defaults are used where no flag speaks") {
  const TempDir dir;
  std::filesystem::copy(bundled_model(), dir / "model");
  write_file(dir / "model" + "/generation_config.json",
             R"({"do_sample": true, "temperature": 0.5, "top_k": 7, "top_p": 0.8, "min_p": 0.02,)"
             R"( "repetition_penalty": 1.3})");
  const std::string own = settings(dir, {"--model", dir / "model"});
  for (const char* setting : {"\"temperature\":0.5", "\"top_k\":7", "\"top_p\":0.8",
                              "\"min_p\":0.02", "\"repetition_penalty\":1.3"}) {
    CHECK_MESSAGE(own.find(setting) != std::string::npos, setting, " not in ", own);
  }
  const std::string flags =
      settings(dir, {"--model", dir / "model", "--temperature", "0", "--top-k", "3"});
  CHECK(flags.find("\"temperature\":0,") != std::string::npos);
  CHECK(flags.find("\"top_k\":3,") != std::string::npos);
}

TEST_CASE("top-k -1 is off, as a flag too") {
  const TempDir dir;
  for (const Words& flags : {Words{"--top-k", "-1"}, Words{"--top-k=-1"}}) {
    CHECK(settings(dir, flags).find("\"top_k\":0,") != std::string::npos);
  }
}

TEST_CASE("the cap on prefill chunks and the admission reserve act on the steps") {
  const TempDir dir;
  std::string lines;
  for (int i = 0; i < 12; ++i) {
    lines += "{\"prompt\": \"Once upon a time there was a little house\", \"max_tokens\": 9}\n";
  }
  write_file(dir / "in.jsonl", lines);
  // The most admitted by one step, and the most that ran at once.
  const auto most = [&](const Words& flags) {
    const Ended ended = run(Words{"--input", dir / "in.jsonl", "--output", dir / "out.jsonl",
                                  "--stats", dir / "stats.jsonl", "--trace", dir / "trace.jsonl",
                                  "--overwrite", "--quiet", "--ignore-eos", "--block-size", "4",
                                  "--num-blocks", "40", "--prefix-cache", "off"} +
                            flags);
    REQUIRE_MESSAGE(ended.exit_code == 0, ended.err);
    std::pair<int64_t, int64_t> result;
    for (const Json& step : json_file(dir / "trace.jsonl")) {
      result.first = std::max(result.first, step.integer("/admitted"));
      result.second = std::max(result.second, step.integer("/running"));
    }
    std::filesystem::remove(dir / "trace.jsonl");
    return result;
  };
  const auto free = most({"--admission-reserve", "0"});
  CHECK(free.first > 1);
  CHECK(most({"--admission-reserve", "0", "--max-prefill-chunks", "1"}).first == 1);
  CHECK(most({"--admission-reserve", "0.6"}).second < free.second);
}

TEST_CASE("sizes and types may be written as other tools write them") {
  const TempDir dir;
  const auto setting = [&](const Words& flags, const std::string& name) {
    const std::string stats = dir / ("stats" + flags[1]);
    answer("{\"prompt\": \"Nora\", \"max_tokens\": 1}\n", Words{"--stats", stats} + flags);
    return summary_beside(stats)["/config/" + name];
  };
  const std::pair<const char*, const char*> sizes[] = {{"1.5MB", "1500000"},
                                                       {"3M", "3000000"},
                                                       {"2.5MiB", "2621440"},
                                                       {"2048KiB", "2097152"},
                                                       {"0.002GB", "2000000"}};
  for (const auto& [size, bytes] : sizes) {
    CAPTURE(size);
    CHECK(setting({"--kv-memory", size}, "kv_memory") ==
          setting({"--kv-memory", bytes}, "kv_memory"));
  }
  const std::pair<const char*, const char*> types[] = {{"bf16", "bfloat16"},
                                                       {"fp32", "float32"},
                                                       {"float", "float32"},
                                                       {"fp16", "float16"},
                                                       {"half", "float16"}};
  for (const auto& [type, name] : types) {
    CAPTURE(type);
    CHECK(setting({"--dtype", type}, "dtype") == setting({"--dtype", name}, "dtype"));
  }
  CHECK(setting({"--dtype", "bf16"}, "dtype") == "\"bfloat16\"");
}

TEST_CASE("a number that its flag cannot hold, or not in decimal, is refused") {
  const TempDir dir;
  write_file(dir / "in.jsonl", "{\"prompt\": \"Hi\"}\n");
  for (const Words& flags :
       {Words{"--seed", "99999999999999999999"}, Words{"--num-blocks", "99999999999999999999"},
        Words{"--max-tokens", "0x10"}, Words{"--max-tokens", "1.5"}, Words{"--threads", ""},
        Words{"--stop-token-ids", "5000"}}) {
    const Ended ended = run(Words{"--input", dir / "in.jsonl"} + flags);
    CHECK(ended.exit_code == 1);
    CHECK_MESSAGE(ended.err.find(flags[0]) != std::string::npos, ended.err);
  }
  CHECK(!std::filesystem::exists(dir / "in.completions.jsonl"));
}
