// Ends that come early: signals, closed pipes, full disks. And the memory of long inputs.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "e2e.h"

namespace pagedinfer {
namespace {

namespace fs = std::filesystem;

// Lines of very different lengths, so that they don't end in the order they come in.
std::string uneven_lines(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    lines += "{\"id\": " + std::to_string(i) +
             ", \"prompt_token_ids\": [5], \"ignore_eos\": true, \"max_tokens\": " +
             std::to_string(1 + i * 37 % 100) + "}\n";
  }
  return lines;
}

// Little work and much output: more than a pipe holds.
std::string lines_with_long_ids(int count) {
  const std::string id(500, 'x');
  std::string lines;
  for (int i = 0; i < count; ++i) {
    lines += "{\"id\": \"" + id + "\", \"prompt_token_ids\": [5], \"max_tokens\": 1}\n";
  }
  return lines;
}

}  // namespace

TEST_CASE("an interrupted run keeps what is finished, in whole lines and in order") {
  for (const int signal : {SIGINT, SIGTERM}) {
    for (const std::string order : {"input", "completion"}) {
      CAPTURE(signal);
      CAPTURE(order);
      const TempDir dir;
      const int count = 1000;
      write_file(dir / "in.jsonl", uneven_lines(count));
      Process process(command({"run", "--input", dir / "in.jsonl", "--max-batch-size", "2",
                               "--threads", "1", "--order", order}));
      const std::string output = dir / "in.completions.jsonl";
      CHECK(process.wait_until([&] { return fs::exists(output) && fs::file_size(output) > 0; }));
      process.send(signal);
      const Ended ended = process.wait();
      CHECK(ended.exit_code == 130);

      std::set<int64_t> finished;
      int64_t place = 0;
      for (const Json& record : json_file(output)) {
        finished.insert(record.integer("/index"));
        if (order == "input") CHECK(record.integer("/index") == place++);
      }
      if (fs::exists(output + ".part")) {
        for (const Json& record : json_file(output + ".part")) {
          if (record.has("/index")) finished.insert(record.integer("/index"));
        }
      }
      CHECK(finished.size() > 0);
      CHECK(finished.size() < count);
      // Everything that the statistics count is on disk.
      const std::vector<Json> stats = json_file(dir / "in.stats.jsonl");
      for (const Json& request : of_kind(json_file(dir / "in.stats.jsonl"), "request")) {
        CHECK(finished.count(request.integer("/index")) == 1);
      }
      CHECK(stats.back().text("/kind") == "summary");
      CHECK(stats.back().integer("/completed") == static_cast<int64_t>(finished.size()));
    }
  }
}

TEST_CASE("a run that waits for input is interrupted too") {
  Process process(command({"run", "--input", "-"}));
  process.write(R"({"prompt": "Nora", "max_tokens": 2})"
                "\n{\"half\"");
  CHECK(process.wait_until([&] { return process.out().ends_with('\n'); }));
  process.send(SIGINT);
  const Ended ended = process.wait();
  CHECK(ended.exit_code == 130);
  CHECK(json_lines(ended.out).size() == 1);
}

TEST_CASE("a second signal ends a run at once") {
  const TempDir dir;
  Process process(command({"run", "--input", "-", "--stats", dir / "stats"}));
  process.hold_output();  // nobody reads: the run gets stuck in writing
  process.write(lines_with_long_ids(1000));
  process.close_input();
  CHECK(process.wait_until([&] { return process.unread_output() >= 60000; }));
  process.send(SIGINT);
  const auto later = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  process.wait_until([&] { return std::chrono::steady_clock::now() > later; });
  process.send(SIGTERM);
  const Ended ended = process.wait();
  CHECK(!ended.timed_out);
  CHECK(ended.exit_code == 130);
  // It did not get to the end that a single signal leads to.
  CHECK(of_kind(json_file(dir / "stats"), "summary").empty());
}

TEST_CASE("a reader that goes away ends the run without a fuss") {
  const TempDir dir;
  Process process(command({"run", "--input", "-", "--stats", dir / "stats"}));
  process.write(lines_with_long_ids(500));
  process.wait_until([&] { return process.out().size() > 10000; });
  process.close_output();
  process.write(lines_with_long_ids(500));
  process.close_input();
  const Ended ended = process.wait();
  CHECK(!ended.timed_out);
  CHECK(ended.exit_code == 1);  // the run could not go on; not a signal, not a crash
  CHECK(ended.err.find("standard output") != std::string::npos);
  CHECK(ended.err.find("Broken pipe") != std::string::npos);
  for (const Json& line : json_file(dir / "stats")) CHECK(line.has("/kind"));
}

TEST_CASE("a full disk ends the run and says so") {
  if (!fs::exists("/dev/full")) {
    MESSAGE("SKIPPED: no /dev/full here");
    return;
  }
  const TempDir dir;
  write_file(dir / "in.jsonl", uneven_lines(20));
  for (const char* flag : {"--output", "--stats", "--trace"}) {
    CAPTURE(flag);
    const Ended ended = run({"--input", dir / "in.jsonl", "--overwrite", flag, "/dev/full"});
    CHECK(ended.exit_code == 1);
    CHECK(ended.err.find("/dev/full") != std::string::npos);
    CHECK(ended.err.find("disk is full") != std::string::npos);
    CHECK(ended.out == "");
  }
  // The completions themselves were whole when only the numbers about them had no place.
  CHECK(json_file(dir / "in.completions.jsonl").size() == 20);
  CHECK(fs::exists("/dev/full"));
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

TEST_CASE("memory does not grow with the input, also behind a slow line") {
  if (kSanitized) {
    MESSAGE("SKIPPED: sanitizers have memory of their own");
    return;
  }
  const auto peak_memory = [](int count) {
    const TempDir dir;
    std::string lines = R"({"prompt_token_ids": [5], "ignore_eos": true, "max_tokens": 300})"
                        "\n";
    // Short work, but 3 KB of each line belong to its request and 2 KB to its record.
    const std::string line = R"({"id": ")" + std::string(2000, 'i') + R"(", "stop": ")" +
                             std::string(1000, 's') + R"(", "prompt": "Nora", "max_tokens": 1})" +
                             "\n";
    for (int i = 1; i < count; ++i) lines += line;
    write_file(dir / "in.jsonl", lines);
    const Ended ended = run({"--input", dir / "in.jsonl", "--quiet"});
    CHECK(ended.exit_code == 0);
    const std::string out = read_file(dir / "in.completions.jsonl");
    CHECK(std::count(out.begin(), out.end(), '\n') == count);
    CHECK(!fs::exists(dir / "in.completions.jsonl.part"));
    CHECK(ended.peak_memory > 0);
    return ended.peak_memory;
  };
  const int64_t few = peak_memory(500), many = peak_memory(20000);
  MESSAGE("peak memory: " << (few >> 20) << " MiB on 500 lines, " << (many >> 20)
                          << " MiB on 20,000");
  CHECK(many - few < int64_t{32} << 20);
}

}  // namespace pagedinfer
