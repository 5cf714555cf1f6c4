// --quantize: what is the same whatever a run does, and what is refused.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "tests/support/e2e.h"

namespace pagedinfer {

TEST_CASE("completions with weights in int8 are the same bytes in every configuration") {
  check_same_in_every_configuration({"--quantize", "int8"});
}

TEST_CASE("the summary and the plan tell of weights in int8, which take half the memory") {
  const TempDir dir;
  write_file(dir / "in.jsonl", "{\"prompt\": \"Hi\", \"max_tokens\": 2}\n");
  const auto summary = [&](const Words& flags) {
    const Ended ended = run(Words{"--input", dir / "in.jsonl", "--overwrite", "--quiet", "--stats",
                                  dir / "stats.jsonl"} +
                            flags);
    REQUIRE_MESSAGE(ended.exit_code == 0, ended.err);
    return summary_beside(dir / "stats.jsonl");
  };
  const Json usual = summary({}), eight = summary({"--quantize", "int8"});
  CHECK(usual.text("/config/quantize") == "none");
  CHECK(eight.text("/config/quantize") == "int8");
  CHECK(eight.text("/config/dtype") == "bfloat16");
  const double ratio = eight.number("/config/weight_bytes") / usual.number("/config/weight_bytes");
  CHECK(ratio > 0.5);
  CHECK(ratio < 0.55);  // scales, norms
  const Words flags = {"--input", dir / "in.jsonl", "--quantize", "int8"};
  const Ended plan = run_program(command(Words{"plan"} + flags));
  CHECK(plan.out.find("weights in int8,") != std::string::npos);
  CHECK(run_program(command({"info", "--quantize", "int8"})).out.find(", weights in int8") !=
        std::string::npos);
}

TEST_CASE("a run goes on with the quantization that it began with only") {
  const TempDir dir;
  write_file(dir / "in.jsonl", "{\"prompt\": \"Hi\", \"max_tokens\": 2}\n");
  const Words flags = {"--input", dir / "in.jsonl", "--quiet"};
  CHECK(run(flags + Words{"--quantize", "int8"}).exit_code == 0);
  const Ended other = run(flags + Words{"--resume"});
  CHECK(other.exit_code == 1);
  CHECK(other.err.find("began with quantize = int8, found none; resume it with what it began with "
                       "(--quantize int8)") != std::string::npos);
  CHECK(run(flags + Words{"--resume", "--quantize", "int8"}).exit_code == 0);
}

TEST_CASE("weights in int8 are multiplied without --dtype changing what they are") {
  const std::string line = "{\"prompt\": \"Once upon a time\", \"max_tokens\": 8}\n";
  for (const char* const dtype : {"float32", "float16"}) {
    const Answers answers = answer(line, {"--quantize", "int8", "--dtype", dtype});
    CHECK(answers.exit_code == 0);
    CHECK(answers.records[0].integer("/completion_tokens") == 8);
  }
}

TEST_CASE("completions with weights in int4 are the same bytes in every configuration") {
  check_same_in_every_configuration({"--quantize", "int4"});
}

TEST_CASE("a checkpoint of 4 bits keeps them, unless --quantize says otherwise") {
  const TempDir dir;
  std::string lines;
  for (int i = 0; i < 12; ++i) {
    lines += fmt::format("{{\"prompt_token_ids\": [{}, {}, {}], \"max_tokens\": {}}}\n", 1 + i,
                         40 - i, 20, 3 + i);
  }
  write_file(dir / "in.jsonl", lines);
  for (const char* const name : {"gptq-4-order-groups", "awq-groups", "ct-packed-4-groups"}) {
    CAPTURE(name);
    const Words model = {"--model", source_dir() + "/tests/data/quantized/" + name};
    const Words flags = model + Words{"--input", dir / "in.jsonl", "--quiet", "--overwrite"};
    const std::string output = dir / "in.completions.jsonl";
    const auto completions = [&](const Words& more) {
      const Ended ended = run(flags + more);
      REQUIRE_MESSAGE(ended.exit_code == 0, ended.err);
      return read_file(output);
    };
    const std::string dequantized = completions({"--quantize", "none"}), kept = completions({});
    for (const Words& more :
         {Words{"--quantize", "codes"}, Words{"--cpu-isa", "portable"}, Words{"--cpu-isa", "avx2"},
          Words{"--threads", "3", "--max-batch-size", "2"},
          Words{"--prefill-chunk-size", "1", "--block-size", "1"}, Words{"--kv", "contiguous"}}) {
      CHECK_MESSAGE(completions(more) == kept, more[1]);
    }
    const Ended other = run(
        model + Words{"--input", dir / "in.jsonl", "--quiet", "--resume", "--quantize", "none"});
    CHECK(other.exit_code == 1);
    CHECK(other.err.find("began with quantize = codes, found none;") != std::string::npos);
    const Words resumed = model + Words{"--input", dir / "in.jsonl", "--quiet", "--resume"};
    completions({"--quantize", "none"});
    const Ended by_default = run(resumed);
    CHECK(by_default.exit_code == 1);
    CHECK(by_default.err.find("began with quantize = none, found codes; resume it with what it "
                              "began with (--quantize none)") != std::string::npos);
    CHECK(run(resumed + Words{"--quantize", "none"}).exit_code == 0);
    CHECK(read_file(output) == dequantized);
    const Ended said = run(model + Words{"--input", dir / "in.jsonl", "--overwrite"});
    CHECK(said.err.find("weights stay the checkpoint's codes, and") != std::string::npos);
    const Ended info = run_program(command(Words{"info"} + model));
    CHECK(info.out.find(", weights in the checkpoint's codes") != std::string::npos);
    for (const char* const subcommand : {"info", "plan"}) {
      const Words input =
          subcommand == std::string_view("plan") ? Words{"--input", dir / "in.jsonl"} : Words{};
      const Ended none =
          run_program(command(Words{subcommand} + model + input + Words{"--quantize", "none"}));
      CHECK_MESSAGE(
          none.out.find(" weights dequantized from the checkpoint's codes") != std::string::npos,
          none.out);
    }
  }
}

TEST_CASE("what --quantize cannot be is refused by name") {
  const Answers answers = answer("{\"prompt\": \"Hi\"}\n", {"--quantize", "int3"});
  CHECK(answers.exit_code == 1);
  CHECK(answers.err.find("--quantize: found int3, expected one of auto, none, codes, int8, int4") !=
        std::string::npos);
}

}  // namespace pagedinfer
