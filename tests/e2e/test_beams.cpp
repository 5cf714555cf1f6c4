// Beam search from line to record.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/support/e2e.h"
#include "tests/support/paths.h"

namespace pagedinfer {
namespace {

// The lines that ask for the searches of a recorded file. Several are equal.
std::string lines_of(const std::vector<Json>& searches) {
  std::string lines;
  for (const Json& search : searches) {
    const std::string width = search["/width"];
    lines += fmt::format(
        R"({{"prompt":{},"beam_width":{},"n":{},"length_penalty":{},"early_stopping":{},)"
        R"("stop_token_ids":{},"max_tokens":{}}})",
        search["/prompt"], width, width, search["/length_penalty"], search["/early_stopping"],
        search["/ends"], search["/max_tokens"]);
    lines += "\n";
  }
  return lines;
}

}  // namespace

TEST_CASE("a beam search finds what transformers finds with the bundled models") {
  for (const char* model : {"story-llama", "story-qwen3", "story-gemma3"}) {
    INFO(model);
    const std::vector<Json> searches =
        json_file(fmt::format("{}/tests/data/{}/beams.jsonl", source_dir(), model));
    const Answers found =
        answer(lines_of(searches), {"--model", model, "--dtype", "float32", "--token-ids"});
    REQUIRE(found.records.size() == searches.size());
    CHECK(searches.size() >= 12);
    for (size_t i = 0; i < searches.size(); ++i) {
      const Json &record = found.records[i], &search = searches[i];
      INFO(search.line());
      for (int beam = 0; beam < search.integer("/width"); ++beam) {
        const std::string choice = fmt::format("/choices/{}", beam);
        const std::string expected = fmt::format("/beams/{}", beam);
        CHECK(record.integers(choice + "/token_ids") == search.integers(expected + "/tokens"));
        CHECK(record.number(choice + "/score") ==
              doctest::Approx(search.number(expected + "/score")).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("what a beam search finds does not depend on the cache, the batch or its company") {
  const std::vector<Json> searches =
      json_file(source_dir() + "/tests/data/story-llama/beams.jsonl");
  std::string lines = lines_of(searches);
  for (int i = 0; i < 8; ++i) {
    lines += fmt::format(R"({{"prompt":"Once upon a time","temperature":1,"max_tokens":{}}})",
                         4 * i + 1);
    lines += "\n";
  }
  const std::string expected = answer(lines, {"--prefix-cache", "off"}).out;
  for (const Words& flags :
       {Words{"--max-batch-size", "3", "--block-size", "4", "--max-step-tokens", "40"},
        Words{"--num-blocks", "110", "--block-size", "8", "--admission-reserve", "0",
              "--prefill-chunk-size", "9"},
        Words{"--kv", "contiguous", "--num-blocks", "320", "--max-model-len", "512"},
        Words{"--threads", "1"}}) {
    CAPTURE(flags.front());
    CHECK(answer(lines, flags).out == expected);
  }
}

TEST_CASE("a search wider than the batch is answered, with either cache") {
  const std::string line = R"({"prompt":"Zoe saw a","beam_width":64,"n":2,"max_tokens":40})"
                           "\n";
  const std::string expected = answer(line).out;
  CHECK(expected.find("score") != std::string::npos);
  CHECK(answer(line, {"--max-batch-size", "1"}).out == expected);
  CHECK(answer(line, {"--max-batch-size", "2", "--kv", "contiguous"}).out == expected);
}

TEST_CASE("what asks for nothing is accepted beside a beam search, and its bound is told") {
  std::string ends;
  for (int i = 10; i < 310; ++i) ends += (i == 10 ? "" : ",") + std::to_string(i);
  const Answers found =
      answer(R"({"prompt":"Zoe","beam_width":2,"best_of":1,"temperature":0,"max_tokens":2})"
             "\n"
             R"({"prompt":"Zoe","beam_width":2,"best_of":2,"max_tokens":2})"
             "\n"
             R"({"prompt":"Zoe","beam_width":2,"max_tokens":2,"stop_token_ids":[)" +
             ends + "]}\n");
  REQUIRE(found.records.size() == 3);
  CHECK_FALSE(found.records[0].has("/error"));
  CHECK(found.records[1].text("/error/code") == "invalid_value");
  CHECK(found.records[2].text("/error/message").find("expected at most 256 together") !=
        std::string::npos);
}

TEST_CASE("a record has as many beams as asked for, with their scores, best first") {
  const Answers found = answer(
      R"({"prompt":"Zoe saw a","max_tokens":6,"beam_width":4,"n":3})"
      "\n"
      R"({"prompt":"Zoe saw a","max_tokens":6,"beam_width":4})"
      "\n"
      R"({"custom_id":1,"url":"/v1/completions","body":{"prompt":["Zoe saw a","Nora"],"max_tokens":6,"beam_width":4,"n":2}})"
      "\n");
  REQUIRE(found.records.size() == 3);
  const Json &several = found.records[0], &one = found.records[1], &openai = found.records[2];
  CHECK(several.has("/choices/2"));
  CHECK_FALSE(several.has("/choices/3"));
  CHECK(several.number("/choices/0/score") > several.number("/choices/1/score"));
  CHECK(several.number("/choices/1/score") > several.number("/choices/2/score"));
  CHECK(one["/text"] == several["/choices/0/text"]);
  CHECK(one["/score"] == several["/choices/0/score"]);
  CHECK(one.integer("/completion_tokens") == 6);
  CHECK(openai["/response/body/choices/0/text"] == one["/text"]);
  CHECK(openai["/score/1"] == several["/choices/1/score"]);
  CHECK(openai.has("/score/3"));
  CHECK_FALSE(openai.has("/response/body/choices/0/score"));
}

TEST_CASE("settings of draws in flags do not change a beam search") {
  const std::string line = "{\"prompt\":\"Zoe saw a\",\"max_tokens\":6,\"beam_width\":3}\n";
  const std::string expected = answer(line).out;
  CHECK(answer(line, {"--temperature", "1.5", "--top-p", "0.5", "--top-k", "3"}).out == expected);
  const Answers refused = answer(line, {"--repetition-penalty", "1.5"});
  REQUIRE(refused.records.size() == 1);
  CHECK(refused.records[0].text("/error/code") == "invalid_value");
}

}  // namespace pagedinfer
