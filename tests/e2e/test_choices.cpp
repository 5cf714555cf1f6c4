// Several completions of a prompt in one record.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

// Lines with one and with several completions and prompts, drawn and greedy, with and without log
// probabilities, in every form, some of them bad.
std::string lines_with_choices(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    const std::string question = fmt::format("What is {} + {}?", i % 10, i % 7);
    const int n = 1 + i * 5 % 8;
    std::string settings = fmt::format(R"("max_tokens":{},"temperature":{},"n":{})", 1 + i * 7 % 30,
                                       i % 4 == 3 ? 0 : 1, n);
    if (i % 5 == 1) settings += fmt::format(R"(,"best_of":{})", n + 3);
    if (i % 3 == 1) settings += fmt::format(R"(,"logprobs":{})", i % 4);
    if (i % 9 == 5) {
      lines += fmt::format(R"({{"prompt":"{}","n":65}})", question);
    } else if (i % 6 == 2) {
      lines += fmt::format(
          R"({{"custom_id":{},"url":"/v1/completions","body":{{"prompt":["{}","Nora"],{}}}}})", i,
          question, settings);
    } else if (i % 10 == 3) {
      lines += fmt::format(
          R"({{"prompt":"{} And {}?","prompt_logprobs":{},"logprobs":1,"echo":{},"max_tokens":{}}})",
          question, question, i % 4, i % 4 == 1, i % 3);
    } else if (i % 7 == 4) {
      lines += fmt::format(R"({{"prompt":"{}","echo":true,"max_tokens":{}}})", question, i % 3);
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
  const Answers found =
      answer(ask + "3}\n" + ask + "1}\n" + ask + "2,\"best_of\":5}\n", {"--stats", stats});
  REQUIRE(found.records.size() == 3);
  const Json &several = found.records[0], &alone = found.records[1];
  for (int i = 0; i < 3; ++i) {
    CHECK(several[fmt::format("/choices/{}/text", i)] == alone["/text"]);
  }
  CHECK_FALSE(several.has("/choices/3"));
  CHECK(several.integer("/completion_tokens") == 3 * alone.integer("/completion_tokens"));
  CHECK(found.records[2].integer("/completion_tokens") == 5 * alone.integer("/completion_tokens"));
  const std::vector<Json> computed = json_file(stats);
  REQUIRE(computed.size() == 3);
  CHECK(computed[0].integer("/completion_tokens") == alone.integer("/completion_tokens"));
}

TEST_CASE("the number of completions is a flag's where the line has none") {
  const std::string ask = R"({"prompt":"Once upon a time","max_tokens":2)";
  const Answers found = answer(ask + "}\n" + ask + ",\"n\":1}\n", {"--n", "2"});
  REQUIRE(found.records.size() == 2);
  CHECK(found.records[0].has("/choices/1"));
  CHECK(found.records[1].has("/text"));
}

TEST_CASE("the best of more completions are some of those that are drawn") {
  const std::string ask = R"({"id":"a","prompt":"Once upon a time","max_tokens":8,"seed":2,)"
                          R"("temperature":2,)";
  const Answers found =
      answer(ask + R"("n":6,"logprobs":0})" + "\n" + ask + R"("n":2,"best_of":6})" + "\n");
  REQUIRE(found.records.size() == 2);
  const Json &all = found.records[0], &best = found.records[1];
  std::vector<std::pair<double, std::string>> ranked;
  for (int i = 0; i < 6; ++i) {
    const std::string choice = fmt::format("/choices/{}", i);
    double sum = 0;
    int count = 0;
    for (std::string place;
         place = fmt::format("{}/logprobs/token_logprobs/{}", choice, count), all.has(place);
         ++count) {
      sum += all.number(place);
    }
    REQUIRE(count == 8);  // none ended early, which would have hidden a log probability
    ranked.emplace_back(-sum, all.text(choice + "/text"));
  }
  std::ranges::sort(ranked);
  CHECK(best.text("/choices/0/text") == ranked[0].second);
  CHECK(best.text("/choices/1/text") == ranked[1].second);
  CHECK_FALSE(best.has("/choices/2"));
  CHECK_FALSE(best.has("/choices/0/logprobs"));
  CHECK(best["/completion_tokens"] == all["/completion_tokens"]);
}

TEST_CASE("the prompts of a line share a record, and each is completed as it is alone") {
  const auto line = [](const std::string& prompt) {
    return R"({"custom_id":"a","url":"/v1/completions","body":{"prompt":)" + prompt +
           R"(,"max_tokens":6,"temperature":1,"n":2}})" + "\n";
  };
  const Answers found =
      answer(line(R"(["Once upon","Zoe saw","Once upon"])") + line(R"("Once upon")") +
             line(R"([[1,17],[254]])") + line(R"(["Zoe",""])"));
  CHECK(found.exit_code == 2);
  REQUIRE(found.records.size() == 4);
  const Json &several = found.records[0], &first = found.records[1];
  const std::string body = "/response/body/";
  for (int i = 0; i < 6; ++i) {
    CHECK(several.integer(fmt::format("{}choices/{}/index", body, i)) == i);
  }
  CHECK_FALSE(several.has(body + "choices/6"));
  for (const char* choice : {"choices/0/text", "choices/1/text"}) {
    CHECK(several[body + choice] == first[body + choice]);
  }
  const auto prompt_tokens = [&](const Json& record) {
    return record.integer(body + "usage/prompt_tokens");
  };
  CHECK(prompt_tokens(several) > 2 * prompt_tokens(first));
  CHECK(several.integer(body + "usage/completion_tokens") == 36);
  CHECK(found.records[2].has(body + "choices/3"));
  CHECK(prompt_tokens(found.records[2]) == 3);
  CHECK(found.records[3].text("/error/code") == "empty_prompt");
  CHECK(found.records[3].text("/error/message").starts_with("prompt[1]: "));
}

TEST_CASE("a line of prompts of which one never fits the cache is an error, and computes nothing") {
  const TempDir dir;
  const Answers found =
      answer(R"({"custom_id":"a","url":"/v1/completions","body":{"prompt":[[5],[5,6,7]],)"
             R"("max_tokens":31}})"
             "\n",
             {"--num-blocks", "4", "--block-size", "8", "--trace", dir / "trace"});
  REQUIRE(found.records.size() == 1);
  CHECK(found.records[0].text("/error/code") == "exceeds_cache");
  CHECK(found.records[0].text("/error/message").starts_with("prompt[1]: "));
  CHECK(read_file(dir / "trace") == "");
}

TEST_CASE("an echoed prompt stands before the text as the line has it") {
  const std::string ask = R"({"prompt":" Once  upon\n","max_tokens":)";
  const Answers found =
      answer(ask + "4}\n" + ask + R"(4,"echo":true})" + "\n" + ask + R"(0,"echo":true})" + "\n");
  REQUIRE(found.records.size() == 3);
  const std::string prompt = " Once  upon\n";
  CHECK(found.records[1].text("/text") == prompt + found.records[0].text("/text"));
  CHECK(found.records[2].text("/text") == prompt);
  CHECK(found.records[2]["/completion_tokens"] == "0");
  CHECK(found.records[2]["/prompt_tokens"] == found.records[0]["/prompt_tokens"]);
  CHECK(found.exit_code == 0);
}

// A prompt that ends with a completion gives the completion's tokens what they had when drawn.
TEST_CASE("log probabilities of a prompt are those of its tokens as a completion") {
  std::string ids = "300,301,302";
  const Answers drawn =
      answer(fmt::format(R"({{"prompt_token_ids":[{}],"max_tokens":40,"logprobs":2}})", ids) + "\n",
             {"--token-ids", "--ignore-eos"});
  REQUIRE(drawn.records.size() == 1);
  for (int i = 0; i < 40; ++i) {
    ids += "," + drawn.records[0][fmt::format("/token_ids/{}", i)];
  }
  const Json& completion = drawn.records[0];
  const auto check = [&](const std::string& line, const std::string& list, const Words& flags) {
    const Answers scored = answer(line + "\n", flags);
    REQUIRE(scored.records.size() == 1);
    REQUIRE_MESSAGE(!scored.records[0].has("/error"), scored.out);
    const Json& record = scored.records[0];
    const int64_t num_prompt = record.integer("/prompt_tokens");
    CHECK(record[list + "/token_logprobs/0"] == "null");
    for (int64_t i = 1; i <= 40; ++i) {
      const std::string there = fmt::format("/{}", num_prompt - i),
                        here = fmt::format("/{}", 40 - i);
      REQUIRE(record[list + "/token_logprobs" + there] ==
              completion["/logprobs/token_logprobs" + here]);
      REQUIRE(record[list + "/top_logprobs" + there] ==
              completion["/logprobs/top_logprobs" + here]);
    }
    CHECK_FALSE(record.has(fmt::format("{}/tokens/{}", list, num_prompt)));
  };
  const auto ask = [&](const char* keys) {
    return fmt::format(R"({{"prompt_token_ids":[{}],"max_tokens":0,{}}})", ids, keys);
  };
  for (const Words& flags : {Words{}, Words{"--prefill-chunk-size", "3"},
                             Words{"--batching", "static"}, Words{"--max-batch-size", "1"}}) {
    check(ask(R"("prompt_logprobs":2)"), "/prompt_logprobs", flags);
    check(ask(R"("logprobs":2,"echo":true)"), "/logprobs", flags);
  }
}

TEST_CASE("choices are the same bytes in every configuration") {
  const std::string lines = lines_with_choices(40);
  const Answers expected = answer(lines, {"--max-batch-size", "1", "--kv", "contiguous"});
  CHECK(expected.exit_code == 2);
  CHECK(expected.records.size() == 40);
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

TEST_CASE("copies on write are counted: all but the last sample to write to a block make one") {
  const auto copies_of = [](const std::string& prompt_ids, const Words& flags) {
    const TempDir dir;
    const Answers answers =
        answer(fmt::format(R"({{"prompt_token_ids":[{}],"max_tokens":4,"temperature":1,"n":5}})",
                           prompt_ids),
               flags + Words{"--stats", dir / "stats", "--trace", dir / "trace", "--block-size",
                             "4", "--num-blocks", "1024", "--max-model-len", "64"});
    REQUIRE(answers.exit_code == 0);
    int64_t in_steps = 0;
    for (const Json& step : json_file(dir / "trace")) in_steps += step.integer("/copies");
    CHECK(summary_beside(dir / "stats").integer("/kv_copies") == in_steps);
    return in_steps;
  };
  CHECK(copies_of("5,6,7,8,9", {}) == 4);
  CHECK(copies_of("5,6,7,8", {}) == 0);
  CHECK(copies_of("5,6,7,8", {"--kv", "contiguous"}) == 4);
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

TEST_CASE("records of several choices are resumed, and merged from shards") {
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
