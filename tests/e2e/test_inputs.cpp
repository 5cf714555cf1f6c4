// Which lines of which files are read.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>

#include "tests/support/e2e.h"
#include "tests/support/gzip.h"

namespace pagedinfer {
namespace {

// Lines without an id, among blank ones: their random numbers are those of their line numbers.
std::string many_lines(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    lines += i % 3 == 1 ? "\n  \r\n" : "";
    lines += i % 7 == 4
                 ? "{\"prompt\": 5}\n"
                 : fmt::format(R"({{"prompt":"Nora has {} {}","max_tokens":{},"temperature":1}})",
                               i, i % 2 ? "apples" : "pears", 1 + i % 5) +
                       "\n";
  }
  return lines;
}

std::string first_lines(const std::string& text, int count) {
  size_t end = 0;
  while (count-- > 0) end = text.find('\n', end) + 1;
  return text.substr(0, end);
}

}  // namespace

TEST_CASE("a run with a limit gives the first records of the whole run") {
  const TempDir dir;
  const std::string input = dir / "in.jsonl";
  write_file(input, many_lines(40));
  CHECK(run({"--input", input, "--output", dir / "all"}).exit_code == 2);
  const std::string all = read_file(dir / "all");
  for (const int limit : {1, 3, 4, 39, 40, 1000}) {
    CAPTURE(limit);
    const std::string output = dir / fmt::format("first {}", limit);
    const Ended ended = run({"--input", input, "--output", output, "--limit", std::to_string(limit),
                             "--stats", dir / "stats"});
    CHECK(ended.exit_code == (limit < 5 ? 0 : 2));
    CHECK(read_file(output) == first_lines(all, std::min(limit, 40)));
  }
}

TEST_CASE("a pipe is read to the limit and no further") {
  Process process(command({"run", "--input", "-", "--limit", "2", "--quiet"}));
  process.write(first_lines(many_lines(9), 4));  // and its end never comes
  const Ended ended = process.wait();
  CHECK(ended.exit_code == 0);
  CHECK(json_lines(ended.out).size() == 2);
}

TEST_CASE("a run goes on with a larger limit, and not with a smaller one") {
  const TempDir dir;
  const std::string input = dir / "in.jsonl", output = dir / "out";
  write_file(input, many_lines(40));
  run({"--input", input, "--output", dir / "all", "--quiet"});
  const auto resume = [&](const Words& flags) {
    return run(Words{"--input", input, "--output", output, "--resume"} + flags);
  };
  for (const char* limit : {"10", "10", "25"}) CHECK(resume({"--limit", limit}).exit_code == 2);
  CHECK(read_file(output) == first_lines(read_file(dir / "all"), 25));
  const Ended smaller = resume({"--limit", "24"});
  CHECK(smaller.exit_code == 1);
  CHECK(smaller.err.find("(--limit 24): has 24 lines that are not blank, expected the 25") !=
        std::string::npos);
  CHECK(resume({}).exit_code == 2);
  CHECK(read_file(output) == read_file(dir / "all"));
}

TEST_CASE("an id under another key names the record, its errors and its random numbers") {
  const TempDir dir;
  const auto lines = [](const char* key) {
    return fmt::format(R"({{"{0}":"x/1","prompt":"Nora has","temperature":1}}
{{"{0}":7,"prompt":"Nora has","temperature":1}}
{{"{0}":8,"prompt":5}}
{{"{0}":1.5,"prompt":"Nora"}}
)",
                       key);
  };
  write_file(dir / "a.jsonl", lines("id"));
  write_file(dir / "b.jsonl", lines("question_id"));
  CHECK(run({"--input", dir / "a.jsonl", "--max-tokens", "9"}).exit_code == 2);
  const Words renamed = {"--input", dir / "b.jsonl", "--max-tokens", "9"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), renamed.begin(), renamed.end());
    return run(more);
  };
  CHECK(with({"--id-field", "question_id"}).exit_code == 2);
  std::string expected = read_file(dir / "a.completions.jsonl");
  expected.replace(expected.find("id: found 1.5"), 2, "question_id");
  CHECK(read_file(dir / "b.completions.jsonl") == expected);
  CHECK(with({"--resume"}).err.find("began with id_field = \"question_id\", found \"id\"") !=
        std::string::npos);
  CHECK(
      with({"--id-field", "seed"}).err.find("--id-field seed: a line's seed says something else") !=
      std::string::npos);
  CHECK(with({"--id-field", "q", "--prompt-field", "q"}).err.find("--id-field q: is") !=
        std::string::npos);
}

TEST_CASE("a prompt under another key is the same prompt") {
  const TempDir dir;
  write_file(dir / "a.jsonl", "{\"id\":1,\"prompt\":\"Once upon a time\",\"answer\":2}\n");
  write_file(dir / "b.jsonl", "{\"id\":1,\"question\":\"Once upon a time\",\"answer\":2}\n");
  CHECK(run({"--input", dir / "a.jsonl", "--max-tokens", "5"}).exit_code == 0);
  const Ended ended =
      run({"--input", dir / "b.jsonl", "--max-tokens", "5", "--prompt-field", "question"});
  CHECK(ended.exit_code == 0);
  CHECK(ended.err.find("ignored unknown keys: \"answer\" (1)") != std::string::npos);
  CHECK(read_file(dir / "b.completions.jsonl") == read_file(dir / "a.completions.jsonl"));
  const Ended other = run({"--input", dir / "b.jsonl", "--max-tokens", "5", "--resume"});
  CHECK(other.exit_code == 1);
  CHECK(other.err.find("began with prompt_field = \"question\", found \"prompt\"") !=
        std::string::npos);
}

TEST_CASE("a packed input gives the same records, also after a resume") {
  const TempDir dir;
  const std::string lines = many_lines(40), packed = dir / "packed.jsonl.gz";
  write_file(dir / "in.jsonl", lines);
  write_file(packed, gzip(lines.substr(0, 500)) + gzip(lines.substr(500)));
  CHECK(run({"--input", dir / "in.jsonl"}).exit_code == 2);
  const std::string expected = read_file(dir / "in.completions.jsonl");
  CHECK(run({"--input", packed}).exit_code == 2);
  CHECK(read_file(dir / "packed.completions.jsonl") == expected);
  CHECK(answer(read_file(packed)).out == expected);

  // Cut off: what is there is answered, and the rest when the rest is there.
  const std::string whole = read_file(packed), output = dir / "out";
  const size_t first = gzip(lines.substr(0, 500)).size();
  write_file(packed, whole.substr(0, whole.size() - 20));
  const Ended cut = run({"--input", packed, "--output", output, "--resume"});
  CHECK(cut.exit_code == 1);
  CHECK(cut.err.find(packed + ": the gzip data end at byte ") != std::string::npos);
  const std::string answered = read_file(output);
  CHECK(answered.size() > expected.size() / 3);
  CHECK(expected.starts_with(answered));
  write_file(packed, whole.substr(0, first) + "garbage");
  const Ended damaged = run({"--input", packed, "--output", output, "--overwrite"});
  CHECK(damaged.exit_code == 1);
  CHECK(damaged.err.find(packed + ": the gzip data are damaged at or before byte ") !=
        std::string::npos);
  write_file(packed, whole);
  CHECK(run({"--input", packed, "--output", output, "--resume"}).exit_code == 2);
  CHECK(read_file(output) == expected);
}

TEST_CASE("a packed file of a public benchmark is read as it is") {
  const std::string input = shared_data("prompts/HumanEval.jsonl.gz");
  if (!std::filesystem::exists(input)) {
    MESSAGE("SKIPPED: there is no " << input);
    return;
  }
  const TempDir dir;
  const Ended ended = run({"--input", input, "--output", dir / "out", "--stats", dir / "stats",
                           "--prompt-field", "prompt", "--max-tokens", "1"});
  CHECK(ended.exit_code == 0);
  CHECK(json_file(dir / "out").size() == 164);
}

TEST_CASE("an input that is written to while it is read is an error, unless it has only grown") {
  const TempDir dir;
  const std::string input = dir / "in.jsonl", lines = many_lines(2000);
  // Runs to the end while something happens to the input behind the first records.
  const auto run_while = [&](const std::string& output, const std::function<void()>& happens) {
    write_file(input, lines);
    Process process(
        command({"run", "--input", input, "--output", output, "--max-batch-size", "2"}));
    CHECK(process.wait_until([&] { return read_file(output).size() > 100; }));
    happens();
    return process.wait();
  };
  const auto overwrite = [&](const std::string& text) {
    std::fstream(input, std::ios::in | std::ios::out).write(text.data(), long(text.size()));
  };

  const Ended changed = run_while(dir / "changed", [&] { overwrite("{\"prompt\": \"other\"}"); });
  CHECK(changed.exit_code == 1);
  CHECK(changed.err.find(input + ": the first 2000 lines that are not blank have changed") !=
        std::string::npos);
  CHECK(json_file(dir / "changed").size() == 2000);  // nothing of it is lost
  const Ended resumed = run({"--input", input, "--output", dir / "changed", "--resume"});
  CHECK(resumed.exit_code == 1);
  CHECK(resumed.err.find(input + ": the first 2000 lines") != std::string::npos);
  write_file(input, lines);
  CHECK(run({"--input", input, "--output", dir / "changed", "--resume"}).exit_code == 2);

  const Ended same = run_while(dir / "same", [&] { overwrite(lines.substr(0, 10)); });
  CHECK(same.exit_code == 2);
  const Ended replaced = run_while(dir / "replaced", [&] { write_file(input, "new\n"); });
  CHECK(replaced.exit_code == 2);  // the old file is read to its end
  const Ended gone = run_while(dir / "gone", [&] { std::filesystem::remove(input); });
  CHECK(gone.exit_code == 2);
  for (const char* output : {"changed", "same", "replaced", "gone"}) {
    CHECK(read_file(dir / output) == read_file(dir / "same"));
  }
  CHECK(run({"--input", input, "--output", dir / "never"}).exit_code == 1);
}

TEST_CASE("an interrupt while a run looks at what there is changes nothing") {
  const TempDir dir;
  const std::string input = dir / "in.jsonl", output = dir / "out";
  write_file(input, many_lines(2000));
  CHECK(run({"--input", input, "--output", output, "--resume", "--quiet"}).exit_code == 2);
  const std::string records = read_file(output);
  const size_t mark_size = read_file(output + ".run").size();
  for (int round = 0; round < 6; ++round) {
    Process process(command({"run", "--input", input, "--output", output, "--resume"}));
    std::this_thread::sleep_for(std::chrono::milliseconds(10 * round));
    process.send(round % 2 ? SIGINT : SIGTERM);
    const Ended ended = process.wait();
    // It was killed before it could say anything, told that it was interrupted, or was faster.
    const bool known = ended.exit_code >= 128 || ended.exit_code == 2;
    CHECK_MESSAGE(known, ended.exit_code);
    CHECK(read_file(output) == records);
  }
  CHECK(run({"--input", input, "--output", output, "--resume", "--quiet"}).exit_code == 2);
  CHECK(read_file(output) == records);
  CHECK(read_file(output + ".run").size() == mark_size);
}

TEST_CASE("questions of a public benchmark are all answered") {
  const std::string input = shared_data("prompts/gsm8k_test.jsonl");
  if (!std::filesystem::exists(input)) {
    MESSAGE("SKIPPED: there is no " << input);
    return;
  }
  const TempDir dir;
  const Ended ended = run({"--input", input, "--output", dir / "out", "--prompt-field", "question",
                           "--max-tokens", "1", "--stats", dir / "stats", "--quiet"});
  CHECK(ended.exit_code == 0);
  const std::vector<Json> records = json_file(dir / "out");
  REQUIRE(records.size() == 1319);
  CHECK(records[0].integer("/prompt_tokens") > 50);
  CHECK(records[1318].integer("/index") == 1318);
}

TEST_CASE("an input that is no JSON lines is refused at the start, and nothing is written") {
  const TempDir dir;
  struct Case {
    std::string bytes, words;
  };
  const std::string zeros(1, '\0');
  for (const auto& [bytes, words] :
       {Case{"[{\"prompt\": \"a\"},\n{\"prompt\": \"b\"}]\n", "is a JSON array"},
        Case{"{\n  \"prompt\": \"a\"\n}\n", "is JSON over many lines"},
        Case{"{" + zeros + "\"" + zeros + "a" + zeros, "is UTF-16LE text"},
        Case{"PK\x03\x04....", "is a zip archive"}, Case{"PAR1\x15...", "is Parquet"}}) {
    CAPTURE(words);
    const std::string input = dir / "in", packed = dir / "in.gz", output = dir / "out";
    write_file(input, bytes);
    write_file(packed, gzip(bytes));
    write_file(output, "old\n");
    const std::set<std::string> before = names_in(dir.path());
    const auto check = [&](const Ended& ended, const std::string& name) {
      CAPTURE(ended.err);
      CHECK(ended.exit_code == 1);
      CHECK(ended.out == "");
      CHECK(ended.err.starts_with("pagedinfer: " + name + ": " + words));
      CHECK(ended.err.find('\n') == ended.err.size() - 1);
      CHECK(read_file(output) == "old\n");
      CHECK(names_in(dir.path()) == before);
    };
    const Words flags = {"--output", output, "--overwrite", "--stats", dir / "stats"};
    for (const std::string& name : {input, packed}) {
      check(run(flags + Words{"--input", name}), name);
      check(run(flags + Words{"--input", "-"}, read_file(name)), "standard input");
      check(run({"--input", name, "--output", dir / "new", "--stats", dir / "stats"}), name);
    }
    check(run({"--input", "-", "--output", dir / "new"}, bytes), "standard input");
  }
}

TEST_CASE("a first line that is bad is answered, and the next ones too") {
  for (const std::string bad :
       {"id,prompt", "{", "[", "[{\"prompt\": \"a\"}]", "{\"prompt\":", "x"}) {
    CAPTURE(bad);
    const Answers answers = answer(bad + "\n{\"prompt\": \"a\", \"max_tokens\": 1}\n");
    CHECK(answers.exit_code == 2);
    REQUIRE(answers.records.size() == 2);
    CHECK(answers.records[0].has("/error/code"));
    CHECK(answers.records[1].has("/text"));
  }
}

TEST_CASE("a line of a pipe is answered before the next one comes") {
  Process process(command({"run", "--input", "-", "--quiet"}));
  int count = 0;
  for (const std::string line :
       {"{\n", "a,b\n", "[]\n", "{\"prompt\": \"a\", \"max_tokens\": 1}\n"}) {
    process.write(line);
    ++count;
    CHECK(process.wait_until(
        [&] { return std::count(process.out().begin(), process.out().end(), '\n') == count; }));
  }
  process.close_input();
  CHECK(process.wait().exit_code == 2);
}

}  // namespace pagedinfer
