// Ends that come early: closed pipes, slow readers, full disks. And the memory of long inputs.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/e2e.h"
#include "tests/support/sanitized.h"

namespace pagedinfer {
namespace {

namespace fs = std::filesystem;
}  // namespace

TEST_CASE("the closing lines report what the run did") {
  const TempDir dir;
  write_file(dir / "in.jsonl", "\n \n");
  const Words flags = {"--input", dir / "in.jsonl", "--max-tokens", "1"};
  CHECK(run(flags).err.ends_with("in.jsonl: no line to answer\n" + last_line(0)));
  write_file(dir / "in.jsonl", "{\"prompt\": \"Nora\"}\n{}\n[]\n");
  const Ended quiet = run(flags + Words{"--resume", "--quiet"});
  CHECK(quiet.exit_code == 2);
  CHECK(quiet.err.find("line 3: not_an_object: found an empty list") != std::string::npos);
  CHECK(quiet.err.ends_with("\n" + last_line(1, 2)));
  const Ended again = run(flags + Words{"--resume"});
  CHECK(again.exit_code == 2);
  CHECK(again.err.ends_with("nothing new: 3 records were there already\n" + last_line(1, 2)));
}

TEST_CASE("a reader that goes away ends the run with one sentence") {
  for (const std::string order : {"input", "completion"}) {
    CAPTURE(order);
    const TempDir dir;
    Process process(command({"run", "--input", "-", "--order", order, "--stats", dir / "stats"}));
    process.write(lines_with_long_ids(500));
    process.wait_until([&] { return process.out().size() > 10000; });
    process.close_output();
    process.write(lines_with_long_ids(500));
    process.close_input();
    const Ended ended = process.wait();
    CHECK(!ended.timed_out);
    CHECK(ended.exit_code == 1);  // the run could not go on; not a signal, not a crash
    CHECK(ended.err.ends_with("\npagedinfer: standard output: the reader has closed it\n"));
    CHECK(std::ranges::count(ended.err, '\n') == 2);  // and that the default model answers
    CHECK(summary_beside(dir / "stats").integer("/completed") > 0);
  }
}

TEST_CASE("a reader of the trace that goes away costs no record") {
  const TempDir dir;
  write_file(dir / "in.jsonl", uneven_lines(100));
  Process process(command({"run", "--input", dir / "in.jsonl", "--output", dir / "out", "--stats",
                           "/dev/null", "--trace", "/dev/stdout"}));
  process.close_output();
  const Ended ended = process.wait();
  CHECK(ended.exit_code == 0);
  CHECK(ended.err.find("standard output: the reader has closed it; the run goes on") !=
        std::string::npos);
  CHECK(json_file(dir / "out").size() == 100);
}

TEST_CASE("a reader slower than the engine gets every byte, and memory stays as it is") {
  for (const std::string order : {"input", "completion"}) {
    CAPTURE(order);
    const std::string lines = lines_with_long_ids(4000);
    const Words flags = {"run", "--input", "-", "--order", order};
    const Ended fast = run_program(command(flags), lines);
    CHECK(fast.exit_code == 0);

    Process process(command(flags));
    process.write(lines);
    process.close_input();
    for (bool more = true; more;) {  // 64 KB, and a pause, and so on
      process.hold_output();
      const auto later = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
      process.wait_until([&] { return std::chrono::steady_clock::now() > later; });
      const size_t held = process.out().size();
      process.release_output();
      more = process.wait_until([&] { return process.out().size() > held; });
    }
    const Ended slow = process.wait();
    CHECK(slow.exit_code == 0);
    CHECK((order == "input" ? slow.out == fast.out : slow.out.size() == fast.out.size()));
    if (!kSanitized) CHECK(slow.peak_memory - fast.peak_memory < int64_t{16} << 20);
  }
}

TEST_CASE("a full disk ends the run and says so") {
  if (!fs::exists("/dev/full")) {
    MESSAGE("SKIPPED: no /dev/full here");
    return;
  }
  const TempDir dir;
  write_file(dir / "in.jsonl", uneven_lines(20));
  const Ended ended = run({"--input", dir / "in.jsonl", "--output", "/dev/full"});
  CHECK(ended.exit_code == 1);
  CHECK(ended.err.find("/dev/full: cannot write: the disk is full") != std::string::npos);
  CHECK(ended.out == "");
  CHECK(fs::exists("/dev/full"));
}

TEST_CASE("an output that is removed or truncated ends the run with code 1 and a sentence") {
  const TempDir dir;
  const std::string output = dir / "out";
  for (const bool removed : {false, true}) {
    Process process(command({"run", "--input", "-", "--output", output, "--quiet", "--overwrite"}));
    process.write(uneven_lines(20));
    CHECK(process.wait_until([&] {
      std::error_code absent;
      return fs::file_size(output, absent) > 0 && !absent;
    }));
    if (removed) {
      fs::remove(output);
    } else {
      fs::resize_file(output, 0);
    }
    process.write(uneven_lines(20));
    process.close_input();
    const Ended ended = process.wait();
    CHECK(ended.exit_code == 1);
    CHECK(ended.err.starts_with("pagedinfer: " + output + ": "));
    CHECK(ended.err.find(removed ? "was removed while" : "another program has truncated it") !=
          std::string::npos);
    for (const char* ending : {"", ".part"}) fs::remove(output + ending);
  }
}

TEST_CASE("measurements that cannot be written are reported once, and the run continues") {
  if (!fs::exists("/dev/full")) {
    MESSAGE("SKIPPED: no /dev/full here");
    return;
  }
  const TempDir dir;
  for (const bool bad_line : {false, true}) {
    write_file(dir / "in.jsonl", uneven_lines(20) + (bad_line ? "{}\n" : ""));
    for (const char* flag : {"--stats", "--trace"}) {
      CAPTURE(flag);
      const Ended ended =
          run({"--input", dir / "in.jsonl", "--overwrite", "--quiet", flag, "/dev/full"});
      CHECK(ended.exit_code == (bad_line ? 2 : 0));
      const std::string note =
          "note: /dev/full: cannot write: the disk is full; the run goes on without these "
          "measurements\n";
      const std::string error =
          "line 21: missing_prompt: prompt: found neither it nor prompt_token_ids nor messages, "
          "expected one of them\n";
      CHECK(ended.err == (bad_line ? error : "") + note + last_line(20, bad_line ? 1 : 0));
      CHECK(json_file(dir / "in.completions.jsonl").size() == (bad_line ? 21 : 20));
      CHECK_FALSE(fs::exists(dir / "in.completions.jsonl.part"));
    }
  }
}

TEST_CASE("memory does not grow with the input, also behind a slow line") {
  if (is_skipped_when_sanitized("sanitizers have memory of their own")) return;
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
