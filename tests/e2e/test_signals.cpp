// SIGINT, SIGTERM and SIGHUP, once and twice, in every phase of a run.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "output/part_file.h"
#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

namespace fs = std::filesystem;

constexpr int kSignals[] = {SIGINT, SIGTERM};

// In the order of the input they are compared as they are.
std::string in_order(const std::string& records, const std::string& order) {
  if (order == "input") return records;
  std::istringstream text(records);
  std::multiset<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.insert(line);
  std::string sorted;
  for (const std::string& line : lines) sorted += line + "\n";
  return sorted;
}

void wait_a_little(Process& process, int milliseconds = 200) {
  const auto later = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  process.wait_until([&] { return std::chrono::steady_clock::now() > later; });
}

// A model whose made-up weights take a while.
struct SlowModel {
  SlowModel() {
    write_file(dir / "config.json", R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 2048,
        "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 16,
        "intermediate_size": 8192, "vocab_size": 4096, "max_position_embeddings": 128})");
  }

  TempDir dir;
};

}  // namespace

TEST_CASE("an interrupted run keeps what is finished, and resumed it gives the undisturbed bytes") {
  for (const int signal : kSignals) {
    for (const std::string order : {"input", "completion"}) {
      for (const bool twice : {false, true}) {
        CAPTURE(signal);
        CAPTURE(order);
        CAPTURE(twice);
        const TempDir dir;
        const int count = 120;
        write_file(dir / "in.jsonl", uneven_lines(count));
        const std::string output = dir / "out", stats = dir / "stats";
        const Words flags = {"--input", dir / "in.jsonl", "--order", order, "--max-batch-size",
                             "4",       "--threads",      "1"};
        REQUIRE(run(flags + Words{"--output", dir / "whole"}).exit_code == 0);

        const Words files = {"--output", output, "--stats", stats};
        Process process(command(Words{"run"} + flags + files));
        CHECK(process.wait_until([&] { return fs::exists(output) && fs::file_size(output) > 0; }));
        process.send(signal);
        if (twice) process.send(signal == SIGINT ? SIGTERM : SIGINT);
        const Ended ended = process.wait();
        CHECK(ended.exit_code == 130);

        std::set<int64_t> finished;
        int64_t place = 0;
        for (const Json& record : json_lines(read_file(output))) {
          finished.insert(record.integer("/index"));
          if (order == "input") CHECK(record.integer("/index") == place++);
        }
        std::istringstream part(read_file(output + ".part"));
        for (std::string line; std::getline(part, line);) {
          const auto waiting = parse_part_line(line += '\n');
          if (!waiting || waiting->is_receipt()) continue;
          finished.insert(Json(waiting->record).integer("/index"));
        }
        CHECK(finished.size() > 0);
        CHECK(finished.size() < count);
        if (!twice) {
          CHECK(ended.err.find("interrupted: what is finished is in " + output) !=
                std::string::npos);
          // Everything that the statistics count is on disk.
          for (const Json& request : json_file(stats)) {
            CHECK(finished.count(request.integer("/index")) == 1);
          }
          CHECK(summary_beside(stats).integer("/completed") ==
                static_cast<int64_t>(finished.size()));
        }
        const Ended resumed = run(flags + files + Words{"--resume"});
        CHECK(resumed.exit_code == 0);
        CHECK(summary_beside(stats).integer("/resumed") == static_cast<int64_t>(finished.size()));
        CHECK(in_order(read_file(output), order) == in_order(read_file(dir / "whole"), order));
      }
    }
  }
}

TEST_CASE("an interrupted run over a pipe offers the resumption that works") {
  const TempDir dir;
  const Words output = {"--output", dir / "out"};
  const std::string first = R"({"prompt": "Nora", "max_tokens": 2})"
                            "\n";
  Process process(command(Words{"run", "--input", "-"} + output));
  process.write(first);
  CHECK(process.wait_until([&] { return fs::exists(dir / "out") && fs::file_size(dir / "out"); }));
  process.send(SIGINT);
  const Ended ended = process.wait();
  CHECK(ended.exit_code == 130);
  CHECK(ended.err.ends_with(".part; --resume goes on with a file of the same lines as --input\n"));

  CHECK(run(Words{"--input", "-", "--resume"} + output, first).exit_code == 1);
  write_file(dir / "in", first + first);
  CHECK(run(Words{"--input", dir / "in", "--resume"} + output).exit_code == 0);
  CHECK(run({"--input", dir / "in", "--output", dir / "whole"}).exit_code == 0);
  CHECK(read_file(dir / "out") == read_file(dir / "whole"));
}

TEST_CASE("a run that waits for input is interrupted too, and when its terminal goes away") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    for (const bool has_worked : {false, true}) {
      CAPTURE(signal);
      CAPTURE(has_worked);
      const TempDir dir;
      Process process(command({"run", "--input", "-", "--trace", dir / "trace"}));
      if (has_worked) {
        process.write(R"({"prompt": "Nora", "max_tokens": 2})"
                      "\n{\"half\"");
        CHECK(process.wait_until([&] { return process.out().ends_with('\n'); }));
      } else {
        CHECK(process.wait_until([&] { return fs::exists(dir / "trace"); }));
      }
      process.send(signal);
      const Ended ended = process.wait();
      CHECK(ended.exit_code == 130);
      CHECK(json_lines(ended.out).size() == (has_worked ? 1 : 0));
      // There is no file that could be gone on with.
      CHECK(ended.err.find("--resume") == std::string::npos);
    }
  }
}

TEST_CASE("a run that was started to outlive its terminal does") {
  const TempDir dir;
  Words words = {"/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh"};
  const Words run = command({"run", "--input", "-", "--trace", dir / "trace"});
  words.insert(words.end(), run.begin(), run.end());
  Process process(words);
  CHECK(process.wait_until([&] { return fs::exists(dir / "trace"); }));
  process.send(SIGHUP);
  process.write(R"({"prompt": "Nora", "max_tokens": 2})"
                "\n");
  process.close_input();
  const Ended ended = process.wait();
  CHECK(ended.exit_code == 0);
  CHECK(json_lines(ended.out).size() == 1);
}

TEST_CASE("a signal while a pipe waits for its reader or its writer ends the run") {
  const TempDir dir;
  write_file(dir / "in.jsonl", uneven_lines(1));
  write_file(dir / "out", "{\"index\":0}\n");
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  const std::set<std::string> before = names_in(dir.path());
  for (const int signal : kSignals) {
    for (const Words& words : {Words{"run", "--input", dir / "in.jsonl", "--output", dir / "pipe"},
                               Words{"run", "--input", dir / "in.jsonl", "--output", dir / "new",
                                     "--stats", dir / "pipe"},
                               Words{"run", "--input", dir / "in.jsonl", "--output", dir / "new",
                                     "--trace", dir / "pipe", "--stats", "/dev/null"},
                               Words{"run", "--input", dir / "pipe", "--output", "-"},
                               Words{"merge", "--output", dir / "pipe", dir / "out"}}) {
      CAPTURE(signal);
      CAPTURE(words.back());
      Process process(command(words));
      wait_a_little(process, 600);
      process.send(signal);
      const Ended ended = process.wait();
      CHECK(!ended.timed_out);
      // Killed before it could say anything, or interrupted where it waits.
      const bool known = ended.exit_code == 130 || ended.exit_code == 128 + signal;
      CHECK_MESSAGE(known, ended.exit_code);
      CHECK(names_in(dir.path()) == before);
    }
  }
}

TEST_CASE("a pipe whose reader comes late gets every record") {
  const TempDir dir;
  write_file(dir / "in.jsonl", uneven_lines(3));
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  Process process(command(
      {"run", "--input", dir / "in.jsonl", "--output", dir / "pipe", "--stats", dir / "stats"}));
  wait_a_little(process, 300);
  const std::string records = read_file(dir / "pipe");
  CHECK(process.wait().exit_code == 0);
  CHECK(json_lines(records).size() == 3);
}

TEST_CASE("a pipe whose reader leaves at once keeps no program") {
  const TempDir dir;
  const std::string pipe = dir / "pipe";
  write_file(dir / "in.jsonl", uneven_lines(2));
  // More than a pipe holds.
  write_file(dir / "out", "{\"index\":0,\"text\":\"" + std::string(1 << 20, 'x') + "\"}\n");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const Words to_new = {"run", "--input", dir / "in.jsonl", "--overwrite", "--output"};
  struct Case {
    Words words;
    int exit_code;
    std::string expected;
  };
  for (const Case& one :
       {Case{to_new + Words{pipe, "--stats", "/dev/null"}, 1, "the reader has closed it"},
        Case{to_new + Words{dir / "new", "--stats", pipe}, 0, "without these measurements"},
        Case{to_new + Words{dir / "new", "--trace", pipe}, 0, "without these measurements"},
        Case{{"merge", "--trust", "--output", pipe, dir / "out"}, 1, "the reader has closed it"}}) {
    CAPTURE(one.words.back());
    Process process(command(one.words), Process::Stderr::kPipe, std::chrono::seconds(20));
    const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    REQUIRE(reader >= 0);
    char byte = 0;
    while (read(reader, &byte, 1) == 0) usleep(50);  // until it is open for writing
    close(reader);
    const Ended ended = process.wait();
    CAPTURE(ended.err);
    CHECK(!ended.timed_out);
    CHECK(ended.exit_code == one.exit_code);
    CHECK(ended.err.find(one.expected) != std::string::npos);
  }
}

TEST_CASE("a signal while the model is loaded ends the run before it makes a file") {
  for (const int signal : kSignals) {
    for (const bool twice : {false, true}) {
      CAPTURE(signal);
      CAPTURE(twice);
      const TempDir dir;
      const SlowModel model;
      const std::string input = dir / "in.jsonl";
      REQUIRE(::mkfifo(input.c_str(), 0600) == 0);
      Process process(
          command({"run", "--input", input, "--model", model.dir.path(), "--weights", "dummy"}));
      // The input is opened before the model is loaded, so the pipe has a reader.
      int writer = -1;
      CHECK(process.wait_until([&] {
        writer = ::open(input.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        return writer >= 0;
      }));
      process.send(signal);
      if (twice) {
        wait_a_little(process, 50);  // two of a kind at once are one
        process.send(signal);
        wait_a_little(process, 50);
      }
      ::close(writer);
      const Ended ended = process.wait();
      CHECK(!ended.timed_out);
      CHECK(ended.exit_code == 130);
      CHECK(names_in(dir.path()) == std::set<std::string>{"in.jsonl"});
    }
  }
}

TEST_CASE("a signal while the last records are written loses none of them") {
  for (const int signal : kSignals) {
    CAPTURE(signal);
    const TempDir dir;
    const Words flags = {"run", "--input", "-", "--max-batch-size", "1000"};
    const std::string lines = lines_with_long_ids(300);
    const Ended whole = run_program(command(flags), lines);
    Process process(command(flags + Words{"--trace", dir / "trace"}));
    process.hold_output();  // without a reader the run blocks in a write
    process.write(lines);
    process.close_input();
    CHECK(process.wait_until([&] { return process.unread_output() >= 60000; }));
    process.send(signal);
    wait_a_little(process);
    process.release_output();
    const Ended ended = process.wait();
    CHECK(ended.exit_code == 130);
    // What was finished when the signal came, up to the last byte.
    CHECK(whole.out.starts_with(ended.out));
    CHECK(ended.out.ends_with("\n"));
    CHECK(json_lines(ended.out).size() >= 100);
  }
}

TEST_CASE("a second signal ends a run at once") {
  for (const int signal : kSignals) {
    const TempDir dir;
    Process process(command({"run", "--input", "-", "--stats", dir / "stats"}));
    process.hold_output();
    process.write(lines_with_long_ids(1000));
    process.close_input();
    CHECK(process.wait_until([&] { return process.unread_output() >= 60000; }));
    process.send(signal);
    wait_a_little(process);
    process.send(signal == SIGINT ? SIGTERM : SIGINT);
    const Ended ended = process.wait();
    CHECK(!ended.timed_out);
    CHECK(ended.exit_code == 130);
    // It did not get to the end that a single signal leads to.
    CHECK_FALSE(fs::exists(dir / "stats.summary.json"));
  }
}

}  // namespace pagedinfer
