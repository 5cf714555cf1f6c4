// A file shared among runs, and put together again.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/e2e.h"
#include "tests/support/gzip.h"

namespace pagedinfer {
namespace {

// Lines of many lengths among blank ones, some of them bad, none with an id: random numbers
// depend on the line's number.
std::string make_lines(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    if (i % 4 == 1) lines += "\n";
    if (i % 9 == 5) {
      lines += "{\"prompt\": 5}\n";
    } else {
      lines += fmt::format(R"({{"prompt":"Question: What is {} + {}?","max_tokens":{},)"
                           R"("temperature":1}})",
                           i % 10, i % 7, 1 + i * 7 % 40) +
               "\n";
    }
  }
  return lines;
}

// Starts a run and kills it when its output has some records.
void kill_in_the_middle(const Words& flags, const std::string& output) {
  Process process(command(Words{"run"} + flags + Words{"--max-batch-size", "1"}));
  CHECK(process.wait_until([&] { return read_file(output).size() > 300; }));
  process.send(SIGKILL);
  CHECK(process.wait().exit_code == 128 + SIGKILL);
}

}  // namespace

TEST_CASE("three shards, one of them killed and resumed, merge to the single run's records") {
  const TempDir dir;
  const std::string lines = make_lines(240);
  write_file(dir / "in.jsonl", lines);
  write_file(dir / "packed.jsonl.gz", gzip(lines));
  CHECK(run({"--input", dir / "in.jsonl", "--output", dir / "single"}).exit_code == 2);
  const std::string single = read_file(dir / "single");
  for (const char* name : {"in.jsonl", "packed.jsonl.gz"}) {
    for (const char* order : {"input", "completion"}) {
      CAPTURE(name);
      CAPTURE(order);
      const std::string stem = std::string(name).substr(0, std::string(name).find('.'));
      Words outputs;
      for (int shard = 0; shard < 3; ++shard) {
        const Words flags = {"--input", dir / name, "--order",
                             order,     "--shard",  std::to_string(shard) + "/3",
                             "--quiet", "--resume"};
        outputs.push_back(dir / fmt::format("{}.{}-of-3.completions.jsonl", stem, shard));
        std::filesystem::remove(outputs.back());
        std::filesystem::remove(outputs.back() + ".run");
        if (shard == 1) {
          kill_in_the_middle(flags, outputs.back());
          const Ended early =
              run_program(command(Words{"merge", "--output", dir / "early"} + outputs));
          CHECK(early.exit_code == 1);
          CHECK(early.err.find(".part: this run has not ended") != std::string::npos);
        }
        CHECK(run(flags).exit_code == 2);
      }
      std::rotate(outputs.begin(), outputs.begin() + 1, outputs.end());
      const Ended merged =
          run_program(command(Words{"merge", "--overwrite", "--output", dir / "merged"} + outputs));
      CHECK(merged.exit_code == 0);
      CHECK(merged.err == "merged 240 records of 3 files, 27 of them errors\n");
      CHECK(read_file(dir / "merged") == single);
    }
  }
  CHECK(std::filesystem::exists(dir / "in.0-of-3.stats.jsonl"));
  CHECK(std::filesystem::exists(dir / "in.0-of-3.summary.json"));
}

TEST_CASE("a shard is resumed as the shard that it is") {
  const TempDir dir;
  const std::string input = dir / "in.jsonl", output = dir / "out";
  write_file(input, make_lines(30));
  const auto resume = [&](const char* shard) {
    return run({"--input", input, "--output", output, "--resume", "--shard", shard, "--quiet"});
  };
  CHECK(resume("1/3").exit_code == 2);
  const std::string records = read_file(output);
  const Ended other = resume("2/3");
  CHECK(other.exit_code == 1);
  CHECK(other.err.find("the run began with shard = 1/3, found 2/3") != std::string::npos);
  write_file(input, make_lines(60));
  CHECK(resume("1/3").exit_code == 2);
  CHECK(read_file(output).starts_with(records));
  CHECK(run({"--input", input, "--output", dir / "new", "--shard", "1/3"}).exit_code == 2);
  CHECK(read_file(output) == read_file(dir / "new"));
}

TEST_CASE("shards of an input that has grown or changed are not merged with others") {
  const TempDir dir;
  const auto line = [](int i) {
    return fmt::format("{{\"prompt\":\"{}\",\"max_tokens\":1}}\n", i);
  };
  const std::string five = line(0) + line(1) + line(2) + line(3) + line(4);
  const auto take = [&](const char* shard, const std::string& lines) {
    write_file(dir / "in.jsonl", lines);
    CHECK(run({"--input", dir / "in.jsonl", "--resume", "--shard", shard}).exit_code == 0);
  };
  const std::string second = dir / "in.1-of-2.completions.jsonl";
  const auto merge = [&] {
    return run_program(command({"merge", "--overwrite", "--output", dir / "merged",
                                dir / "in.0-of-2.completions.jsonl", second}));
  };
  take("0/2", five + line(5));  // the sixth is of the other shard
  take("1/2", five);
  const Ended earlier = merge();
  CHECK(earlier.exit_code == 1);
  CHECK(earlier.err.find(second + ": its run has read 5 lines, and that of ") != std::string::npos);
  take("1/2", five + line(5));
  CHECK(merge().exit_code == 0);

  std::filesystem::remove(second);
  take("1/2", line(6) + five.substr(line(0).size()) + line(5));  // the first is of the other shard
  const Ended other = merge();
  CHECK(other.exit_code == 1);
  CHECK(other.err.find(second + ": its run has read other lines than ") != std::string::npos);
}

TEST_CASE("a merged output is resumed, and its errors are tried again, as a single run's") {
  for (const std::string order : {"input", "completion"}) {
    CAPTURE(order);
    const TempDir dir;
    const std::string input = dir / "in.jsonl", merged = dir / "merged", single = dir / "single";
    const Words small = {"--num-blocks", "3", "--quiet"};  // too small a cache for some lines
    write_file(input, make_lines(60));
    Words outputs;
    for (const std::string shard : {"0/2", "1/2"}) {
      outputs.push_back(dir / fmt::format("in.{}-of-2.completions.jsonl", shard[0]));
      const Words flags = {"--input", input, "--shard", shard, "--order", order};
      CHECK(run(flags + small).err.find("exceeds_cache") != std::string::npos);
    }
    CHECK(run_program(command(Words{"merge", "--output", merged} + outputs)).exit_code == 0);
    const Words whole = {"--input", input, "--resume", "--quiet"};
    CHECK(run(whole + Words{"--output", merged, "--seed", "1"}).exit_code == 1);
    CHECK(run(whole + Words{"--output", merged, "--order", "completion"}).exit_code == 1);

    write_file(input, make_lines(90));
    CHECK(run(whole + Words{"--output", merged, "--retry-errors"}).exit_code == 2);
    CHECK(run(whole + Words{"--output", single}).exit_code == 2);
    CHECK(read_file(merged) == read_file(single));
  }
}

TEST_CASE("merge writes to standard output, and says what is wrong with its flags") {
  const TempDir dir;
  write_file(dir / "a", "{\"index\":1}\n");
  write_file(dir / "b", "{\"index\":0}\n");
  const auto merge = [](const Words& words) {
    return run_program(command(Words{"merge"} + words));
  };
  const Ended ended = merge({dir / "a", dir / "b", "--output", "-", "--quiet", "--trust"});
  CHECK(ended.exit_code == 0);
  CHECK(ended.out == "{\"index\":0}\n{\"index\":1}\n");
  CHECK(ended.err == "");
  for (const auto& [words, message] : std::vector<std::pair<Words, std::string>>{
           {{}, "expected the outputs of shards"},
           {{dir / "a", dir / "b"}, "--output: expected a file, or -"},
           {{"--output"}, "--output"},
           {{dir / "a", "--output", "x", "--output", "y"}, "--output: given 2 times"},
           {{dir / "a", "--output", "-", "--shard", "1/2"}, "--shard: unknown"},
           {{dir / "a", "--output", "-"}, "--trust accepts it unchecked"},
           {{dir / "a", "--output", "-", "--trust"},
            "index 1, and the files have room for 1 records"}}) {
    const Ended refused = merge(words);
    CHECK(refused.exit_code == 1);
    CHECK(refused.out == "");
    CHECK_MESSAGE(refused.err.find(message) != std::string::npos, refused.err);
  }
  const Ended help = merge({"--help"});
  CHECK(help.exit_code == 0);
  CHECK(help.out.find("--overwrite") != std::string::npos);
  CHECK(help.out.find("--max-tokens") == std::string::npos);
}

}  // namespace pagedinfer
