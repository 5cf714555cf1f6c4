// `pagedinfer verify`: two configurations over one file of prompts, compared.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

Ended verify(const Words& flags) {
  Ended ended = run_program(command(Words{"verify"} + flags));
  CAPTURE(ended.err);
  CHECK(!ended.timed_out);
  return ended;
}

bool says(const Ended& ended, const std::string& text) {
  return ended.err.find(text) != std::string::npos;
}

// CHECKs that the command line is refused with a message that has these words.
void verify_refuses(const Words& flags, const Words& words) {
  const Ended ended = verify(flags);
  CAPTURE(ended.err);
  CHECK(ended.exit_code == 1);
  CHECK(ended.out == "");
  CHECK(ended.err.starts_with("pagedinfer: "));
  CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') == 1);
  for (const std::string& word : words) {
    CHECK_MESSAGE(ended.err.find(word) != std::string::npos, "expected in the message: ", word);
  }
}

// Stories that go on for some time, and lines that fail.
std::string stories() {
  std::string lines;
  for (const char* name : {"Anna", "Paul", "Nora", "Zoe", "Tim", "Lily", "Noah", "Jane"}) {
    for (const char* what : {"found a", "went to the", "said that the", "had a big"}) {
      lines +=
          fmt::format("{{\"id\": \"{0} {1}\", \"prompt\": \"One day {0} {1}\"}}\n", name, what);
    }
    lines += "{\"prompt\": 7}\n";
  }
  return lines;
}

}  // namespace

TEST_CASE("verify compares contiguous with paged, and all requests agree") {
  const TempDir dir;
  write_file(dir / "in.jsonl", stories());
  const Ended ended = verify({"--input", dir / "in.jsonl", "--max-tokens", "12"});
  CAPTURE(ended.err);
  CHECK(ended.exit_code == 0);
  CHECK(ended.out == "");
  CHECK(says(ended, "a            --kv contiguous\n             40 requests in "));
  CHECK(says(ended, "\nb            --kv paged\n             40 requests in "));
  CHECK(says(ended, "\ncompared     40 requests, "));
  CHECK(says(ended, "\nequal        40 requests, 8 of them errors\n"));
  CHECK(says(ended, "\ndiffer       0 requests\n"));
  CHECK(names_in(dir.path()) == std::set<std::string>{"in.jsonl"});
}

TEST_CASE("verify tells the tokens in which the outputs of two runs differ first") {
  const TempDir dir;
  const std::string input = dir / "in.jsonl", output = dir / "out.jsonl";
  write_file(input, stories());
  const Words common = {"--input", input, "--max-tokens", "120", "--ignore-eos"};
  const Ended ended =
      verify(common + Words{"--a", "--dtype float32", "--b", "--dtype bfloat16 --kv contiguous",
                            "--tolerance", "0", "--output", output});
  CAPTURE(ended.err);
  CHECK(ended.exit_code == 2);
  std::map<int64_t, Json> told;
  for (Json& line : json_file(output)) {
    if (line.text("/kind") == "difference") told.emplace(line.integer("/index"), std::move(line));
  }

  const auto records_of = [&](const std::string& type) {
    run(common + Words{"--quiet", "--token-ids", "--dtype", type, "--output", dir / type});
    return json_file(dir / type);
  };
  const std::vector<Json> a = records_of("float32"), b = records_of("bfloat16");
  REQUIRE(a.size() == 40);
  size_t num_different = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    if (a[i].has("/error")) continue;
    const auto mine = a[i].integers("/token_ids"), other = b[i].integers("/token_ids");
    const auto part = std::ranges::mismatch(mine, other).in1 - mine.begin();
    REQUIRE(told.contains(index) == (part < std::ssize(mine)));
    if (part == std::ssize(mine)) continue;
    ++num_different;
    const Json& line = told.at(index);
    CHECK(line["/id"] == a[i]["/id"]);
    CHECK(line.integer("/line") == index + 1);
    CHECK(line.integer("/token") == part);
    CHECK(line.integer("/position") == a[i].integer("/prompt_tokens") + part);
    CHECK(line.integer("/a/token_id") == mine[static_cast<size_t>(part)]);
    CHECK(line.integer("/b/token_id") == other[static_cast<size_t>(part)]);
    CHECK(line["/agrees"] == "false");
    CHECK(says(ended, fmt::format("line {} (id {}), token {} (position {}): ", index + 1,
                                  a[i]["/id"], part, line.integer("/position"))) ==
          (num_different <= 10));
  }
  CHECK(num_different > 3);
  CHECK(json_file(output).back().integer("/differ") == static_cast<int64_t>(num_different));

  SUBCASE("and agrees where their logits are nearer than the tolerance") {
    std::filesystem::remove(output);
    const Ended tolerant = verify(common + Words{"--a", "--dtype float32", "--b", "--kv paged",
                                                 "--tolerance", "5", "--quiet", "--output", "-"});
    CHECK(tolerant.exit_code == 0);
    CHECK(tolerant.err == "");
    const Json counts(json_lines(tolerant.out).back().line());
    CHECK(counts.integer("/tolerated") == static_cast<int64_t>(num_different));
    CHECK(counts.integer("/differ") == 0);
    CHECK(counts.integer("/tokens_not_compared") > 0);
  }
}

TEST_CASE("verify compares the log probabilities of lines that score their prompts") {
  const TempDir dir;
  const std::string input = dir / "in.jsonl", output = dir / "out.jsonl";
  write_file(input,
             R"({"custom_id": "s", "method": "POST", "url": "/v1/completions", "body": {)"
             R"("prompt": ["One day Anna found a", "Tim"], "max_tokens": 0, "prompt_logprobs": 2}})"
             "\n"
             R"({"id": "e", "prompt": "Once", "echo": true, "logprobs": 1, "max_tokens": 3})"
             "\n"
             R"({"prompt": "Once upon", "max_tokens": 2})"
             "\n");
  const Ended same = verify({"--input", input});
  CAPTURE(same.err);
  CHECK(same.exit_code == 0);
  CHECK(says(same, "\nequal        3 requests\n"));
  CHECK(says(same, " tokens, 0 differ\n"));

  const Words types = {"--input", input, "--a", "--dtype float32", "--b", "--dtype bfloat16"};
  const Ended other = verify(types + Words{"--tolerance", "0", "--output", output});
  CAPTURE(other.err);
  CHECK(other.exit_code == 2);
  CHECK(says(other, "line 1 (id \"s\"), log probabilities of prompt 0, entry 1: of "));
  CHECK(says(other, "line 2 (id \"e\"), log probabilities of choice 0, entry 1: of "));
  const auto records_of = [&](const std::string& type) {
    run({"--input", input, "--quiet", "--dtype", type, "--output", dir / type});
    return json_file(dir / type);
  };
  const std::vector<Json> a = records_of("float32"), b = records_of("bfloat16");
  const std::vector<Json> told = of_kind(json_file(output), "log_probabilities");
  REQUIRE(told.size() == 3);
  for (int64_t prompt = 0; prompt < 2; ++prompt) {
    const Json& line = told[static_cast<size_t>(prompt)];
    CHECK(line.integer("/line") == 1);
    CHECK(line.integer("/prompt") == prompt);
    CHECK(line.integer("/entry") == 1);
    CHECK(line["/agrees"] == "false");
    const std::string place = fmt::format("/prompt_logprobs/{}/token_logprobs/1", prompt);
    CHECK(line["/a"] == a[0][place]);
    CHECK(line["/b"] == b[0][place]);
    CHECK(line.number("/largest_difference") > 0);
  }
  CHECK(told[2].integer("/choice") == 0);
  CHECK(told[2]["/a"] == a[1]["/logprobs/token_logprobs/1"]);
  const Json counts = std::move(json_file(output).back());
  CHECK(counts.integer("/differ") >= 2);
  CHECK(counts.integer("/log_probabilities_differ") > 3);

  const Ended tolerant = verify(types + Words{"--tolerance", "5", "--quiet", "--output", "-"});
  CHECK(tolerant.exit_code == 0);
  const Json agreeing(json_lines(tolerant.out).back().line());
  CHECK(agreeing.integer("/differ") == 0);
  CHECK(agreeing.integer("/tolerated") >= 2);
  CHECK(agreeing.integer("/log_probabilities") == counts.integer("/log_probabilities"));
}

TEST_CASE("verify tells where two tokenizers make other tokens of a prompt") {
  const TempDir dir;
  write_file(dir / "in.jsonl", "{\"prompt\": \"One day Anna found a\", \"max_tokens\": 5}\n");
  const Ended ended = verify({"--input", dir / "in.jsonl", "--logits", "--tolerance", "1000", "--a",
                              "--model story-llama", "--b", "--model story-qwen3"});
  CAPTURE(ended.err);
  CHECK(ended.exit_code == 2);
  CHECK(says(ended, "line 1: a has a prompt of "));
  CHECK(says(ended, " tokens that differs from position 0 on, b has a prompt of "));
}

TEST_CASE("verify refuses flags of jobs and of requests in its configurations, by name") {
  const TempDir dir;
  write_file(dir / "in.jsonl", stories());
  const Words input = {"--input", dir / "in.jsonl"};
  for (const char* flags :
       {"--input x", "--output x", "--stats=x", "--resume", "--shard 0/2", "--limit 3",
        "--order completion", "-o x", "--max-tokens 7", "--temperature 1", "--chat-date today"}) {
    const std::string name = std::string(flags).substr(0, std::string(flags).find_first_of(" ="));
    verify_refuses(input + Words{"--a", flags},
                   {"--a ", name + ": both configurations answer the same"});
    verify_refuses(input + Words{"--b", flags},
                   {"--b ", name + ": both configurations answer the same"});
  }
  verify_refuses(input + Words{"--a", "--bloc-size 3"},
                 {"--a", "--bloc-size: unknown; did you mean"});
  verify_refuses(input + Words{"--b", "--block-size x"}, {"--b", "--block-size", "expected"});
  verify_refuses(input + Words{"--b", "--block-size"}, {"--b", "--block-size", "expected a value"});
  verify_refuses(input + Words{"--a", "--batching static --kv paged"}, {"--a", "--kv paged"});
}

TEST_CASE("verify refuses what it has no use for, and says what to do instead") {
  const TempDir dir;
  write_file(dir / "in.jsonl", stories());
  const Words input = {"--input", dir / "in.jsonl"};
  verify_refuses(input + Words{"--resume"}, {"--resume: both configurations run the whole file"});
  verify_refuses(input + Words{"--profile"}, {"--profile: use pagedinfer run"});
  verify_refuses({"--input", "-"}, {"--input -: verify reads it twice"});
  verify_refuses({}, {"--input"});
  verify_refuses({"--input", dir / "none"}, {"none", "No such file"});
  verify_refuses(input + Words{"--tolerance", "-1"}, {"--tolerance: found -1", "a number from 0"});
  verify_refuses(input + Words{"--output", dir / "in.jsonl"}, {"--input", "is what --output"});
  verify_refuses(input + Words{"--a", "--dtype float32"},
                 {"--tolerance", "two types of computation"});
  verify_refuses(input + Words{"--a", "--kv-dtype int8"},
                 {"--tolerance", "two types of the cache"});
  verify_refuses(input + Words{"--b", "--quantize int8"}, {"--tolerance", "two types of weights"});
  // Both compute in float32 on a CPU.
  verify_refuses(input + Words{"--a", "--dtype float16", "--b", "--dtype float32"},
                 {"--tolerance", "two types of the cache"});
  write_file(dir / "out", "old\n");
  verify_refuses(input + Words{"--output", dir / "out"},
                 {(dir / "out") + ": the file exists; --overwrite replaces it"});
  CHECK(read_file(dir / "out") == "old\n");
  CHECK(names_in(dir.path()) == std::set<std::string>{"in.jsonl", "out"});
}

TEST_CASE("an empty configuration is that of the other flags, and no tolerance is asked of it") {
  const TempDir dir;
  write_file(dir / "in.jsonl", stories());
  const Ended ended =
      verify({"--input", dir / "in.jsonl", "--limit", "4", "--max-tokens", "4", "--a", "", "--b",
              "--dtype bf16 --kv-dtype bfloat16 --threads 1 --block-size 3"});
  CAPTURE(ended.err);
  CHECK(ended.exit_code == 0);
  CHECK(says(ended, "compared     4 requests"));
}

TEST_CASE("an interrupted verify has compared nothing and ends with code 130") {
  const TempDir dir;
  std::string lines;
  for (int i = 0; i < 200; ++i) {
    lines += "{\"prompt\": \"Once\", \"max_tokens\": 900, \"ignore_eos\": true}\n";
  }
  write_file(dir / "in.jsonl", lines);
  Process process(command({"verify", "--input", dir / "in.jsonl", "--output", dir / "out",
                           "--max-batch-size", "2", "--stats", dir / "stats"}));
  REQUIRE(process.wait_until([&] { return std::filesystem::exists(dir / "stats"); }));
  process.send(SIGINT);
  const Ended ended = process.wait();
  CHECK(ended.exit_code == 130);
  CHECK(says(ended, "interrupted: nothing was compared\n"));
  CHECK(!std::filesystem::exists(dir / "out"));
}

}  // namespace pagedinfer
