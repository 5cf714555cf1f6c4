// Kills the program at random moments, PAGEDINFER_CRASHES times in all.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "output/leftover.h"
#include "tests/support/paths.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream file(read_file(path));
  for (std::string line; std::getline(file, line) && !file.eof();) lines.push_back(line);
  return lines;
}

std::vector<std::string> sorted(std::vector<std::string> lines) {
  std::sort(lines.begin(), lines.end());
  return lines;
}

// Prompts of many lengths, so that requests end out of order, some whose answers have a form, and
// lines that end in an error.
std::string make_input(std::mt19937& random) {
  std::string input;
  for (int i = 0; i < 150; ++i) {
    if (i % 11 == 3) {
      input += "{\"prompt\": 5}\n";
      continue;
    }
    const char* const form =
        i % 4 == 1 ? R"(,"guided_regex":"[0-9]{1,3}( or [0-9]+)*","temperature":1)" : "";
    input += fmt::format(R"({{"id":{},"prompt":"Question: What is {} + {}?","max_tokens":{}{}}})",
                         i, random() % 50, random() % 50, 1 + random() % 24, form);
    input += '\n';
  }
  return input;
}

pid_t start(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  const int nowhere = ::open("/dev/null", O_RDWR);
  ::dup2(nowhere, STDERR_FILENO);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

// Kills the child as soon as `now` says so. Returns its exit code, or -1 if it was killed.
int end_of(pid_t child, const std::function<bool()>& now) {
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (now()) ::kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The lines that have a record, in the output or waiting.
std::set<int64_t> safe_records(const std::string& path) {
  std::set<int64_t> safe;
  const auto look_at = [&](std::string_view line) {
    if (const auto record = RecordParser().parse(line)) safe.insert(record->index);
  };
  for (const std::string& line : lines_of(path)) look_at(line);
  for (const std::string& part_line : lines_of(path + ".part")) {
    const std::string line = part_line + '\n';
    const auto waiting = parse_part_line(line);
    if (waiting && !waiting->is_receipt()) look_at(std::string(waiting->record));
  }
  return safe;
}

int num_crashes() {
  const char* given = std::getenv("PAGEDINFER_CRASHES");
  return given != nullptr ? std::atoi(given) : 60;
}

}  // namespace

TEST_CASE("a run killed at random moments and resumed gives the same file") {
  std::mt19937 random(1);
  TempDir folder;
  const std::string input = folder / "in.jsonl", output = folder / "out", stats = folder / "stats";
  write_file(input, make_input(random));
  for (const std::string order : {"input", "completion"}) {
    // A small cache: requests are preempted.
    const std::vector<std::string> arguments = {built_program(),
                                                "run",
                                                "--input",
                                                input,
                                                "--output",
                                                output,
                                                "--stats",
                                                stats,
                                                "--order",
                                                order,
                                                "--model",
                                                bundled_model(),
                                                "--threads",
                                                "1",
                                                "--num-blocks",
                                                "16",
                                                "--quiet",
                                                "--max-batch-size",
                                                "16",
                                                "--admission-reserve",
                                                "0"};
    const auto with = [&](const char* flag) {
      auto all = arguments;
      all.push_back(flag);
      return all;
    };
    const auto begin = Clock::now();
    REQUIRE(end_of(start(with("--overwrite")), [] { return false; }) == 2);
    const auto whole = std::chrono::duration<double>(Clock::now() - begin);
    const auto expected = lines_of(output);
    REQUIRE(expected.size() == 150);
    CHECK(read_file(stats).find("\"preemptions\":1") != std::string::npos);
    const auto bytes = std::filesystem::file_size(output);

    int killed = 0, ended = 0;
    size_t taken_over = 0;
    while (2 * killed < num_crashes()) {
      for (const char* ending : {"", ".part", ".run"}) std::filesystem::remove(output + ending);
      for (int code = -1; code == -1;) {
        const auto safe = safe_records(output);
        const auto from = Clock::now();
        const auto after = std::chrono::duration<double>(whole * double(random() % 1000) / 1000);
        const auto size = random() % bytes;
        const bool by_bytes = random() % 2 == 0;
        const pid_t child = start(with("--resume"));
        code = end_of(child, [&] {
          std::error_code absent;
          const auto now = std::filesystem::file_size(output, absent);
          return by_bytes ? !absent && now >= size : Clock::now() - from > after;
        });
        if (code == -1) {
          ++killed;
          const auto later = safe_records(output);
          CHECK(std::includes(later.begin(), later.end(), safe.begin(), safe.end()));
          continue;
        }
        // The run was complete and computed no record again.
        ++ended;
        REQUIRE(code == 2);
        taken_over += safe.size();
        CHECK(
            read_file(stats + ".summary.json").find(fmt::format("\"resumed\":{},", safe.size())) !=
            std::string::npos);
      }
      const auto found = lines_of(output);
      CHECK((order == "input" ? found : sorted(found)) ==
            (order == "input" ? expected : sorted(expected)));
      CHECK_FALSE(std::filesystem::exists(output + ".part"));
    }
    MESSAGE("order ", order, ": killed ", killed, " times, ended ", ended, " times, took over ",
            taken_over, " records");
    std::filesystem::remove(output);
  }
}
