// Files whose lines say when they arrive.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <random>
#include <string>

#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

namespace fs = std::filesystem;

// Requests that draw, some with several prompts or a conversation, and errors; the same ones for
// every pace. Line i arrives about i * pace seconds after the first, some with the line before.
std::string paced_lines(int count, std::optional<double> pace) {
  std::mt19937 random(11);
  std::string lines;
  double time = 0;
  for (int i = 0; i < count; ++i) {
    const auto pick = [&](unsigned below) { return static_cast<int>(random() % below); };
    const int tokens = 1 + pick(12), prompt = pick(90), kind = pick(8);
    const double gap = 0.02 * pick(100);
    if (pace) time += *pace * gap;
    const std::string when =
        pace && kind != 3 ? fmt::format("\"arrival_s\": {:.6f}, ", time) : std::string();
    if (kind == 0) {
      lines += fmt::format("{{{}\"prompt\": {}}}\n", when, i);
    } else if (kind == 1) {
      lines += fmt::format(
          R"({{{}"custom_id": {}, "url": "/v1/completions", "body": {{"prompt": ["a {}", "b"], )"
          R"("max_tokens": {}, "temperature": 0.8}}}})"
          "\n",
          when, i, prompt, tokens);
    } else {
      lines += fmt::format(
          R"({{{}"prompt": "Question: What is {} + {}?", "max_tokens": {}, "temperature": 1}})"
          "\n",
          when, prompt, i, tokens);
    }
  }
  return lines;
}

}  // namespace

TEST_CASE("completions do not depend on arrivals") {
  constexpr int kCount = 40;
  const TempDir dir;
  write_file(dir / "plain", paced_lines(kCount, {}));
  CHECK(run({"--input", dir / "plain", "--output", dir / "expected"}).exit_code == 2);
  const std::string expected = read_file(dir / "expected");
  for (const double pace : {0.0, 0.001, 0.02}) {
    CAPTURE(pace);
    write_file(dir / "in", paced_lines(kCount, pace));
    for (const char* batching : {"continuous", "static"}) {
      CAPTURE(batching);
      const Words flags = {"--input", dir / "in",   "--overwrite", "--max-batch-size",
                           "3",       "--batching", batching};
      CHECK(run(flags + Words{"--output", dir / "out"}).exit_code == 2);
      CHECK(read_file(dir / "out") == expected);
    }
    Words outputs;
    for (int shard = 0; shard < 3; ++shard) {
      outputs.push_back(dir / fmt::format("out.{}", shard));
      CHECK(run({"--input", dir / "in", "--overwrite", "--output", outputs.back(), "--shard",
                 fmt::format("{}/3", shard)})
                .exit_code == 2);
    }
    CHECK(run_program(command(Words{"merge", "--overwrite", "--output", dir / "merged"} + outputs))
              .exit_code == 0);
    CHECK(read_file(dir / "merged") == expected);
  }
  // A run that is interrupted in the middle of the arrivals, and goes on there.
  const Words flags = {"--input", dir / "in", "--output", dir / "resumed"};
  Process process(command(Words{"run"} + flags));
  CHECK(process.wait_until([&] { return read_file(dir / "resumed").size() > 1000; }));
  process.send(SIGINT);
  CHECK(process.wait().exit_code == 130);
  CHECK(read_file(dir / "resumed").size() < expected.size());
  CHECK(run(flags + Words{"--resume"}).exit_code == 2);
  CHECK(read_file(dir / "resumed") == expected);
}

TEST_CASE("a line is not seen before it arrives, and counts from then") {
  const TempDir dir;
  write_file(dir / "in", R"({"prompt": "Nora", "max_tokens": 2, "arrival_s": 0.4}
{"prompt": "Nora", "max_tokens": 2}
{"prompt": "Nora", "max_tokens": 2, "arrival_s": 0.8}
)");
  const Words flags = {"--input", dir / "in", "--output", dir / "out", "--trace", dir / "trace"};
  CHECK(run(flags + Words{"--stats", dir / "stats"}).exit_code == 0);
  const std::vector<Json> requests = json_file(dir / "stats");
  REQUIRE(requests.size() == 3);
  double first_begin = 0, last_begin = 0;
  for (const Json& step : json_file(dir / "trace")) {
    last_begin = step.number("/begin_s");
    if (first_begin == 0) first_begin = last_begin;
  }
  CHECK(first_begin >= 0.4);
  CHECK(last_begin >= 0.8);
  for (const Json& request : requests) {
    const bool is_last = request.integer("/index") == 2;
    CHECK(request.number("/arrival_s") == (is_last ? 0.8 : 0.4));
    // From its reading, the first request would have waited for 0.4 s.
    CHECK(request.number("/queue_ms") >= 0);
    CHECK(request.number("/queue_ms") <= 1e3 * (last_begin - 0.4));
  }
}

TEST_CASE("a time before that of an earlier line is an error in every shard") {
  const TempDir dir;
  write_file(dir / "in", R"({"prompt": "a", "max_tokens": 1, "arrival_s": 0.2}

{"id": "b", "prompt": "a", "max_tokens": 1, "arrival_s": 0.1}
{"id": "c", "prompt": "a", "max_tokens": 1, "arrival_s": 0.15}
{"custom_id": "d", "url": "/v1/completions", "body": {"prompt": "a", "arrival_s": 1}}
{"prompt": "a", "arrival_s": "soon"}
)");
  CHECK(run({"--input", dir / "in", "--output", dir / "all"}).exit_code == 2);
  const std::vector<Json> records = json_file(dir / "all");
  REQUIRE(records.size() == 5);
  CHECK_FALSE(records[0].has("/error"));
  CHECK(records[1].text("/error/code") == "invalid_value");
  CHECK(records[1].text("/id") == "b");
  CHECK(records[1].text("/error/message") ==
        "line 3: arrival_s: found 0.1, expected at least 0.2, which line 1 says");
  CHECK(records[2].text("/error/message") ==
        "line 4: arrival_s: found 0.15, expected at least 0.2, which line 1 says");
  CHECK(records[3].line().find("body.arrival_s: found 1, expected it beside custom_id instead") !=
        std::string::npos);
  CHECK(records[4].text("/error/message") ==
        "arrival_s: found \"soon\", expected a number of seconds from 0");
  Words outputs;
  for (const char* shard : {"0/4", "1/4", "2/4", "3/4"}) {
    outputs.push_back(dir / fmt::format("part{}", outputs.size()));
    run({"--input", dir / "in", "--output", outputs.back(), "--shard", shard});
  }
  CHECK(run_program(command(Words{"merge", "--output", dir / "merged"} + outputs)).exit_code == 0);
  CHECK(read_file(dir / "merged") == read_file(dir / "all"));
}

TEST_CASE("a time that would stop the run for ever is an error") {
  const TempDir dir;
  write_file(dir / "in", R"({"prompt": "a", "max_tokens": 1, "arrival_s": 1e300}
{"prompt": "a", "max_tokens": 1}
{"prompt": "a", "max_tokens": 1, "arrival_s": 0.1}
{"custom_id": "b", "url": "/v1/completions", "body": {"prompt": "a"}, "arrival_s": 999999999}
{"prompt": "a", "max_tokens": 1, "arrival_s": 0.2}
)");
  const std::string first =
      "line 1: arrival_s: found 1e+300, expected at most 604800, 7 days after the start";
  for (const Words& flags : {Words{}, Words{"--shard", "0/1", "--order", "completion"}}) {
    CHECK(run(flags + Words{"--input", dir / "in", "--output", dir / "out", "--overwrite"})
              .exit_code == 2);
    std::vector<Json> records = json_file(dir / "out");
    REQUIRE(records.size() == 5);
    for (const Json& record : records) {
      const int64_t index = record.integer("/index");
      CHECK(record.has("/error/code") == (index == 0 || index == 3));
      if (index == 0) CHECK(record.text("/error/message") == first);
      if (index == 3) {
        CHECK(record.text("/error/code") == "invalid_value");
        CHECK(record.text("/error/message") ==
              "line 4: arrival_s: found 999999999, expected at most 604800.1, 7 days after what "
              "line 3 says");
      }
    }
  }
  const Ended shown = run_program(command({"info", "--render", dir / "in"}));
  CHECK(shown.exit_code == 2);
  CHECK(shown.out.starts_with("line 1: invalid_value: " + first + "\n"));
}

TEST_CASE("the progress counts the seconds down until a line arrives") {
  const TempDir dir;
  write_file(dir / "in", R"({"prompt": "Nora", "max_tokens": 2}
{"prompt": "Nora", "max_tokens": 3, "arrival_s": 119}
)");
  constexpr std::string_view kText = "50 %  1/2  next line in 1:";
  const Words words = {"run",       "--input",     dir / "in",  "--output",
                       dir / "out", "--overwrite", "--progress"};
  const auto interrupt = [](Process& process) {
    process.send(SIGINT);
    const Ended ended = process.wait();
    CHECK(ended.exit_code == 130);
    CHECK(ended.err.find("0 running  KV 0 %") != std::string::npos);
  };
  Process plain(command(words + Words{"on"}));
  CHECK(plain.wait_until([&] { return plain.err().find(kText) != std::string::npos; }));
  interrupt(plain);
  Process terminal(command(words + Words{"auto"}), Process::Stderr::kTerminal);
  const auto counts_down = [&] {
    const size_t first = terminal.err().find(kText), last = terminal.err().rfind(kText);
    const auto seconds_at = [&](size_t at) { return terminal.err().substr(at + kText.size(), 2); };
    return first < last && last != std::string::npos && seconds_at(last) < seconds_at(first);
  };
  CHECK(terminal.wait_until(counts_down));
  interrupt(terminal);
}

TEST_CASE("a run that waits for an arrival is interrupted at once, and goes on there") {
  const TempDir dir;
  write_file(dir / "in", R"({"prompt": "Nora", "max_tokens": 2, "arrival_s": 0}
{"prompt": "Nora", "max_tokens": 3, "arrival_s": 100}
{"prompt": "Nora", "max_tokens": 4, "arrival_s": 100.2}
)");
  const Words flags = {"--input", dir / "in", "--output", dir / "out", "--stats", dir / "stats"};
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto begin = std::chrono::steady_clock::now();
    for (const char* name : {"out", "out.part", "stats"}) fs::remove(dir / name);
    Process process(command(Words{"run"} + flags));
    // What is finished is there while the run waits.
    CHECK(process.wait_until([&] { return read_file(dir / "out").ends_with('\n'); }));
    CHECK(process.wait_until([&] { return read_file(dir / "stats").ends_with('\n'); }));
    process.send(signal);
    CHECK(process.wait().exit_code == 130);
    CHECK(run(flags + Words{"--resume"}).exit_code == 0);
    CHECK(json_file(dir / "out").size() == 3);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(60));
  }
}

}  // namespace pagedinfer
