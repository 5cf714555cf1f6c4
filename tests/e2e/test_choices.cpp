// Several completions of a prompt in one record.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <csignal>
#include <set>
#include <string>
#include <vector>

#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

// Prompts with one and with several completions, drawn and greedy, in every form, some of them bad.
std::string lines_with_choices(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    const std::string question = fmt::format("What is {} + {}?", i % 10, i % 7);
    const std::string settings = fmt::format(R"("max_tokens":{},"temperature":{},"n":{})",
                                             1 + i * 7 % 30, i % 4 == 3 ? 0 : 1, 1 + i * 5 % 8);
    if (i % 9 == 5) {
      lines += fmt::format(R"({{"prompt":"{}","n":65}})", question);
    } else if (i % 6 == 2) {
      lines +=
          fmt::format(R"({{"custom_id":{},"url":"/v1/completions","body":{{"prompt":"{}",{}}}}})",
                      i, question, settings);
    } else {
      lines += fmt::format(R"({{"prompt":"{}",{}}})", question, settings);
    }
    lines += "\n";
  }
  return lines;
}

}  // namespace

TEST_CASE("several completions of a prompt differ, and the first is the one that comes alone") {
  const std::string ask = R"({"id":"a","prompt":"Once upon a time","max_tokens":12,"seed":3,)";
  const Answers found =
      answer(ask + R"("temperature":1,"n":4})" + "\n" + ask + R"("temperature":1})" + "\n",
             {"--token-ids"});
  REQUIRE(found.records.size() == 2);
  const Json &several = found.records[0], &alone = found.records[1];
  CHECK_FALSE(several.has("/text"));
  CHECK_FALSE(several.has("/choices/4"));
  CHECK_FALSE(alone.has("/choices"));
  CHECK(several["/choices/0/text"] == alone["/text"]);
  CHECK(several["/choices/0/token_ids"] == alone["/token_ids"]);
  CHECK(several["/prompt_tokens"] == alone["/prompt_tokens"]);
  int64_t num_tokens = 0;
  std::set<std::string> texts;
  for (int i = 0; i < 4; ++i) {
    const std::string choice = fmt::format("/choices/{}", i);
    CHECK(several.integer(choice + "/index") == i);
    num_tokens += std::ssize(several.integers(choice + "/token_ids"));
    texts.insert(several.text(choice + "/text"));
  }
  CHECK(texts.size() == 4);
  CHECK(several.integer("/completion_tokens") == num_tokens);
}

TEST_CASE("several greedy completions are the one, repeated, and computed once") {
  const TempDir dir;
  const std::string stats = dir / "stats";
  const std::string ask = R"({"prompt":"Once upon a time","max_tokens":9,"n":)";
  const Answers found = answer(ask + "3}\n" + ask + "1}\n", {"--stats", stats});
  REQUIRE(found.records.size() == 2);
  const Json &several = found.records[0], &alone = found.records[1];
  for (int i = 0; i < 3; ++i) {
    CHECK(several[fmt::format("/choices/{}/text", i)] == alone["/text"]);
  }
  CHECK_FALSE(several.has("/choices/3"));
  CHECK(several.integer("/completion_tokens") == 3 * alone.integer("/completion_tokens"));
  const std::vector<Json> computed = of_kind(json_file(stats), "request");
  REQUIRE(computed.size() == 2);
  CHECK(computed[0].integer("/completion_tokens") == alone.integer("/completion_tokens"));
}

TEST_CASE("the number of completions is a flag's where the line has none") {
  const std::string ask = R"({"prompt":"Once upon a time","max_tokens":2)";
  const Answers found = answer(ask + "}\n" + ask + ",\"n\":1}\n", {"--n", "2"});
  REQUIRE(found.records.size() == 2);
  CHECK(found.records[0].has("/choices/1"));
  CHECK(found.records[1].has("/text"));
}

TEST_CASE("several completions are the same bytes in every configuration") {
  const std::string lines = lines_with_choices(24);
  const Answers expected = answer(lines, {"--max-batch-size", "1", "--kv", "contiguous"});
  CHECK(expected.exit_code == 2);
  CHECK(expected.records.size() == 24);
  const Words others[] = {{},
                          {"--kv", "contiguous", "--num-blocks", "4096"},
                          {"--batching", "static", "--max-batch-size", "5"},
                          {"--max-batch-size", "6", "--block-size", "3"},
                          {"--prefill-chunk-size", "2", "--threads", "3"},
                          {"--num-blocks", "24", "--block-size", "4", "--max-model-len", "60",
                           "--admission-reserve", "0"}};
  for (const Words& flags : others) {
    CAPTURE(flags.empty() ? "" : flags[0]);
    CHECK(answer(lines, flags).out == expected.out);
  }
}

TEST_CASE("64 completions of a prompt do not depend on how many sequences may run at once") {
  const std::string lines =
      R"({"prompt":"Once upon a time","max_tokens":6,"temperature":1.5,"n":64})"
      "\n";
  const Answers expected = answer(lines);
  REQUIRE(expected.records.size() == 1);
  CHECK(expected.records[0].has("/choices/63"));
  for (const char* size : {"1", "3", "63"}) {
    CHECK(answer(lines, {"--max-batch-size", size}).out == expected.out);
  }
  CHECK(answer(lines, {"--max-batch-size", "4", "--max-step-tokens", "4"}).out == expected.out);
}

TEST_CASE("records of several completions are resumed, and merged from shards") {
  const TempDir dir;
  write_file(dir / "in.jsonl", lines_with_choices(120));
  CHECK(run({"--input", dir / "in.jsonl", "--output", dir / "single"}).exit_code == 2);
  const std::string single = read_file(dir / "single");
  {
    const Words flags = {"run", "--input", dir / "in.jsonl", "--output", dir / "out"};
    Process process(command(flags + Words{"--max-batch-size", "1"}));
    CHECK(process.wait_until([&] { return read_file(dir / "out").size() > 300; }));
    process.send(SIGKILL);
    CHECK(process.wait().exit_code == 128 + SIGKILL);
  }
  CHECK(run({"--input", dir / "in.jsonl", "--output", dir / "out", "--resume"}).exit_code == 2);
  CHECK(read_file(dir / "out") == single);

  for (const char* shard : {"0/2", "1/2"}) {
    CHECK(run({"--input", dir / "in.jsonl", "--shard", shard}).exit_code == 2);
  }
  CHECK(
      run_program(command({"merge", "--output", dir / "merged", dir / "in.0-of-2.completions.jsonl",
                           dir / "in.1-of-2.completions.jsonl"}))
          .exit_code == 0);
  CHECK(read_file(dir / "merged") == single);
}

}  // namespace pagedinfer
