// --quantize int8: what is the same whatever a run does, and what is refused.
#include <doctest/doctest.h>

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
  CHECK(other.err.find("began with quantize = int8, found none;") != std::string::npos);
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

TEST_CASE("what --quantize cannot be is refused by name") {
  const Answers answers = answer("{\"prompt\": \"Hi\"}\n", {"--quantize", "int4"});
  CHECK(answers.exit_code == 1);
  CHECK(answers.err.find("--quantize: found int4, expected one of none, int8") !=
        std::string::npos);
}

}  // namespace pagedinfer
