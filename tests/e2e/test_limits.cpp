// What a shell can take away from the program: standard streams, stack, threads.
#include <doctest/doctest.h>
#include <unistd.h>

#include <set>
#include <string>

#include "tests/support/e2e.h"
#include "tests/support/sanitized.h"

namespace pagedinfer {
namespace {

const std::string kLines =
    "{\"prompt\": \"Nora\", \"max_tokens\": 4}\n{\"prompt\": \"Once upon\", \"max_tokens\": 9}\n";

// `pagedinfer WORDS` as a shell starts it: behind the commands of `before`, with `redirections`.
Ended run_in_shell(const std::string& before, const std::string& redirections, const Words& words) {
  const Ended ended = run_program(
      Words{"/bin/sh", "-c", before + "; exec \"$@\" " + redirections, "sh"} + command(words));
  CHECK(!ended.timed_out);
  return ended;
}

}  // namespace

TEST_CASE("closed standard streams change no file") {
  const TempDir dir;
  write_file(dir / "in.jsonl", kLines);
  CHECK(run({"--input", dir / "in.jsonl", "--output", dir / "expected"}).exit_code == 0);
  for (const std::string closed :
       {"<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"}) {
    CAPTURE(closed);
    const Ended ended =
        run_in_shell("true", closed,
                     {"run", "--input", dir / "in.jsonl", "--output", dir / "out", "--overwrite",
                      "--progress", "on", "--stats", dir / "stats", "--trace", dir / "trace"});
    CHECK(ended.exit_code == 0);
    CHECK(read_file(dir / "out") == read_file(dir / "expected"));
  }
  json_file(dir / "stats");
  json_file(dir / "trace");
}

TEST_CASE("a standard stream that is closed cannot be named") {
  const TempDir dir;
  const Ended input = run_in_shell("true", "<&-", {"run", "--input", "-", "--output", dir / "out"});
  CHECK(input.exit_code == 1);
  CHECK(input.err.find("--input -: standard input is closed") != std::string::npos);
  write_file(dir / "in.jsonl", kLines);
  for (const Words& words : {Words{"run", "--input", dir / "in.jsonl", "--output", "-"},
                             Words{"merge", "--output", "-", dir / "in.jsonl"}}) {
    const Ended output = run_in_shell("true", ">&-", words);
    CHECK(output.exit_code == 1);
    CHECK(output.err.find("--output -: standard output is closed") != std::string::npos);
  }
  CHECK(names_in(dir.path()) == std::set<std::string>{"in.jsonl"});
}

TEST_CASE("a run works on a small stack") {
  if (is_skipped_when_sanitized("sanitizers need more stack")) return;
  const TempDir dir;
  write_file(dir / "in.jsonl", kLines);
  CHECK(run({"--input", dir / "in.jsonl", "--output", dir / "expected"}).exit_code == 0);
  for (const std::string kibibytes : {"64", "256"}) {
    for (const std::string threads : {"1", "2"}) {
      const Ended ended = run_in_shell("ulimit -s " + kibibytes, "",
                                       {"run", "--input", dir / "in.jsonl", "--output", dir / "out",
                                        "--overwrite", "--threads", threads});
      CHECK(ended.exit_code == 0);
      CHECK(read_file(dir / "out") == read_file(dir / "expected"));
    }
  }
  // What is nested deeper than such a stack is, is answered as ever.
  write_file(dir / "chat.jsonl",
             R"({"messages": [{"role": "user", "content": "Nora"}], "max_tokens": 2})"
             "\n");
  const std::string open(180, '('), close(180, ')');
  write_file(dir / "nested", "{{ " + open + "1" + close + " }}");
  write_file(dir / "calls",
             "{% macro f(n) %}{{ [f(n - 1)]|map('upper')|join }}{% endmacro %}{{ f(1) }}");
  for (const auto& [name, exit_code] : {std::pair("nested", 0), {"calls", 2}}) {
    CAPTURE(name);
    const Ended ended = run_in_shell("ulimit -s 64", "",
                                     {"run", "--input", dir / "chat.jsonl", "--output", dir / "out",
                                      "--overwrite", "--chat-template", dir / name});
    CHECK(ended.exit_code == exit_code);
    CHECK(json_file(dir / "out").at(0).has("/error/code") == (exit_code == 2));
  }
}

TEST_CASE("a thread that cannot start ends the run with a sentence and changes nothing") {
  if (is_skipped_when_sanitized("sanitizers need the addresses that are taken away")) return;
  const TempDir dir;
  write_file(dir / "in.jsonl", kLines);
  write_file(dir / "out", "old\n");
  std::set<std::string> purposes;
  // Of threads whose stacks have 3 GB each the one that finds no room.
  for (const std::string gigabytes : {"2", "5", "8"}) {
    for (const std::string threads : {"1", "2"}) {
      const Ended ended =
          run_in_shell("ulimit -s 3000000; ulimit -v " + gigabytes + "000000", "",
                       {"run", "--input", dir / "in.jsonl", "--output", dir / "out", "--overwrite",
                        "--threads", threads, "--kv-memory", "16MiB", "--stats", dir / "stats"});
      CAPTURE(ended.err);
      CHECK(ended.exit_code == 1);
      const std::string words = "pagedinfer: cannot start a thread that ";
      CHECK(ended.err.starts_with(words));
      CHECK(ended.err.find('\n') == ended.err.size() - 1);
      purposes.insert(
          ended.err.substr(words.size(), ended.err.find(':', words.size()) - words.size()));
      CHECK(read_file(dir / "out") == "old\n");
      CHECK(names_in(dir.path()) == std::set<std::string>{"in.jsonl", "out"});
    }
  }
  CHECK(purposes == std::set<std::string>{"computes", "reads the input", "tokenizes"});
}

TEST_CASE("too little room for the default cache makes a smaller one") {
  if (is_skipped_when_sanitized("sanitizers need the addresses that are taken away")) return;
  const TempDir dir;
  write_file(dir / "in.jsonl", kLines);
  CHECK(run({"--input", dir / "in.jsonl", "--output", dir / "expected"}).exit_code == 0);
  for (const std::string limit : {"-v 1500000", "-d 1000000"}) {
    CAPTURE(limit);
    const Ended ended = run_in_shell("ulimit " + limit, "",
                                     {"run", "--input", dir / "in.jsonl", "--output", dir / "out",
                                      "--overwrite", "--threads", "2"});
    CAPTURE(ended.err);
    CHECK(ended.exit_code == 0);
    CHECK(read_file(dir / "out") == read_file(dir / "expected"));
  }
  for (const std::string limit : {"170000", "180000", "200000", "250000", "400000"}) {
    CAPTURE(limit);
    const Ended ended = run_in_shell("ulimit -v " + limit, "",
                                     {"run", "--input", dir / "in.jsonl", "--output", dir / "out",
                                      "--overwrite", "--threads", "2"});
    CAPTURE(ended.err);
    CHECK((ended.exit_code == 0 ||
           (ended.exit_code == 1 && ended.err.find("--kv-memory") != std::string::npos)));
    CHECK(ended.err.find("cannot start") == std::string::npos);
    CHECK(read_file(dir / "out") == read_file(dir / "expected"));
  }
  const Ended refused = run_in_shell("ulimit -v 300000", "",
                                     {"run", "--input", dir / "in.jsonl", "--output", dir / "out",
                                      "--overwrite", "--threads", "2"});
  CAPTURE(refused.err);
  CHECK((refused.exit_code == 0 || refused.err.find("--kv-memory") != std::string::npos));
  CHECK(read_file(dir / "out") == read_file(dir / "expected"));
}

}  // namespace pagedinfer
