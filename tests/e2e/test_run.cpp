// Files and pipes: what goes in, what comes out, and what must not change it.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

namespace fs = std::filesystem;

const std::string kThreeLines =
    R"({"id": "a", "prompt": "Once upon a time", "max_tokens": 5}
{"prompt": "The dog of Lily", "max_tokens": 1}
{"id": 3, "prompt_token_ids": [1, 5, 9, 400], "max_tokens": 8}
)";

// Prompts of all lengths, greedy and drawn.
std::string mixed_lines(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    std::string prompt = "Question: what is " + std::to_string(i) + " + 2?";
    for (int words = 0; words < i * i % 60; ++words) prompt += " Lily has a red ball.";
    lines += R"({"id": )" + std::to_string(i) + R"(, "prompt": ")" + prompt +
             R"(", "max_tokens": )" + std::to_string(1 + i % 8);
    if (i % 2 == 1) lines += R"(, "temperature": 0.9, "top_p": 0.95, "seed": )" + std::to_string(i);
    lines += "}\n";
  }
  return lines;
}

}  // namespace

TEST_CASE("an input alone gives completions and statistics beside it") {
  const TempDir dir;
  write_file(dir / "three.jsonl", kThreeLines);
  const Ended ended = run({"--input", dir / "three.jsonl"});
  CHECK(ended.exit_code == 0);
  CHECK(ended.out == "");
  CHECK(ended.err.find("requests     3 completed") != std::string::npos);
  CHECK(ended.err.find("TTFT") != std::string::npos);
  CHECK(names_in(dir.path()) == std::set<std::string>{"three.completions.jsonl",
                                                      "three.completions.jsonl.run", "three.jsonl",
                                                      "three.stats.jsonl", "three.summary.json"});

  const std::vector<Json> records = json_file(dir / "three.completions.jsonl");
  REQUIRE(records.size() == 3);
  for (size_t i = 0; i < records.size(); ++i) {
    CHECK(records[i].integer("/index") == static_cast<int64_t>(i));
    CHECK(!records[i].has("/error"));
    CHECK(!records[i].has("/token_ids"));
    CHECK(!records[i].has("/timing"));
  }
  CHECK(records[0]["/id"] == R"("a")");
  CHECK(records[1]["/id"] == "null");
  CHECK(records[2]["/id"] == "3");
  CHECK(records[1].integer("/completion_tokens") == 1);
  CHECK(records[1].integer("/prompt_tokens") > 1);
  CHECK(records[1].text("/finish_reason") == "length");
  CHECK(records[2].integer("/prompt_tokens") == 4);
}

TEST_CASE("an input without the ending .jsonl keeps its whole name") {
  const TempDir dir;
  write_file(dir / "prompts.txt", kThreeLines);
  CHECK(run({"--input", dir / "prompts.txt"}).exit_code == 0);
  CHECK(fs::exists(dir / "prompts.txt.completions.jsonl"));
  CHECK(fs::exists(dir / "prompts.txt.stats.jsonl"));
}

TEST_CASE("files, pipes and both orders give the same records") {
  const TempDir dir;
  const std::string lines = mixed_lines(12);
  write_file(dir / "in.jsonl", lines);
  REQUIRE(run({"--input", dir / "in.jsonl", "--output", dir / "out.jsonl"}).exit_code == 0);
  const std::string expected = read_file(dir / "out.jsonl");
  const size_t num_records = json_lines(expected).size();
  CHECK(num_records == 12);

  CHECK(answer(lines).out == expected);
  CHECK(run({"--input", "-"}, lines).out == expected);  // standard output is the default then
  CHECK(run({"--input", dir / "in.jsonl", "--output", "-"}).out == expected);
  REQUIRE(run({"--input", "-", "--output", dir / "piped.jsonl"}, lines).exit_code == 0);
  CHECK(read_file(dir / "piped.jsonl") == expected);
  CHECK(names_in(dir.path()) == std::set<std::string>{"in.jsonl", "out.jsonl", "out.jsonl.run",
                                                      "out.stats.jsonl", "out.summary.json",
                                                      "piped.jsonl", "piped.jsonl.run",
                                                      "piped.stats.jsonl", "piped.summary.json"});

  Answers finished = answer(lines, {"--order", "completion"});
  CHECK(finished.exit_code == 0);
  std::set<std::string> in_order, as_finished;
  for (const Json& record : json_lines(expected)) in_order.insert(record.line());
  for (const Json& record : finished.records) as_finished.insert(record.line());
  CHECK(as_finished == in_order);
  CHECK(finished.records.size() == num_records);
}

TEST_CASE("standard output is a stream, also where it leads to a file") {
  const TempDir dir;
  const std::string lines = uneven_lines(30), input = dir / "in.jsonl";
  write_file(input, lines);
  const std::string expected = run({"--input", "-"}, lines).out;
  fs::create_directory(dir / "here");
  for (const char* name : {"-.run", "-.part"}) write_file(dir / "here/" + name, "mine\n");
  for (const char* output : {"-", "/dev/stdout", "/dev/fd/1"}) {
    CAPTURE(output);
    const Words shell = {"/bin/sh", "-c",
                         "cd \"$0\" && echo first > ../out && exec \"$@\" >> ../out", dir / "here"};
    const Ended ended =
        run_program(shell + command({"run", "--input", input, "--output", output, "--quiet"}));
    CHECK(ended.exit_code == 0);
    CHECK(ended.err == last_line(30));
    CHECK(read_file(dir / "out") == "first\n" + expected);
    CHECK(names_in(dir / "here") == std::set<std::string>{"-.part", "-.run"});
    CHECK(read_file(dir / "here/-.run") == "mine\n");
    CHECK(run({"--input", input, "--output", output, "--resume"}).err.find("does not keep") !=
          std::string::npos);
  }
  CHECK(names_in(dir.path()) == std::set<std::string>{"here", "in.jsonl", "out"});
}

TEST_CASE("a line is answered while the input is still open") {
  for (const char* order : {"completion", "input"}) {
    CAPTURE(order);
    Process process(command({"run", "--input", "-", "--output", "-", "--order", order}));
    for (int i = 0; i < 3; ++i) {
      process.write(R"({"prompt": "Nora", "max_tokens": 2})"
                    "\n");
      const std::string index = R"("index":)" + std::to_string(i);
      CHECK(process.wait_until([&] {
        const size_t found = process.out().find(index);
        return found != std::string::npos && process.out().find('\n', found) != std::string::npos;
      }));
    }
    process.close_input();
    const Ended ended = process.wait();
    CHECK(ended.exit_code == 0);
    CHECK(json_lines(ended.out).size() == 3);
  }
}

TEST_CASE("a bad line is answered at once, too") {
  for (const char* order : {"completion", "input"}) {
    CAPTURE(order);
    Process process(command({"run", "--input", "-", "--order", order}));
    for (int i = 1; i <= 2; ++i) {
      process.write("{\n");
      const auto num_lines = [&] {
        return std::count(process.out().begin(), process.out().end(), '\n');
      };
      CHECK(process.wait_until([&] { return num_lines() == i; }));
    }
    process.close_input();
    CHECK(process.wait().exit_code == 2);
  }
}

TEST_CASE("the rest of an incomplete line is waited for") {
  Process process(command({"run", "--input", "-"}));
  process.write("{\"prompt\": \"Nora\", \"max_tokens\": 2}\n{\"prompt\": \"Lily");
  CHECK(process.wait_until([&] { return process.out().ends_with('\n'); }));
  process.write("\", \"max_tokens\": 1}\n");
  process.close_input();
  const std::vector<Json> records = json_lines(process.wait().out);
  REQUIRE(records.size() == 2);
  CHECK(records[1].integer("/completion_tokens") == 1);
}

TEST_CASE("an empty input gives an empty output") {
  const TempDir dir;
  for (const char* bytes : {"", "\n", "\xEF\xBB\xBF", "\n \t\r\n\n"}) {
    CAPTURE(bytes);
    write_file(dir / "in.jsonl", bytes);
    const Ended ended = run({"--input", dir / "in.jsonl", "--overwrite"});
    CHECK(ended.exit_code == 0);
    CHECK(ended.err.find(": no line to answer") != std::string::npos);
    CHECK(fs::exists(dir / "in.completions.jsonl"));
    CHECK(read_file(dir / "in.completions.jsonl") == "");
  }
}

TEST_CASE("threads and instruction sets do not change a byte") {
  const std::string lines = mixed_lines(6);
  for (const char* dtype : {"bfloat16", "float32"}) {
    const Words type = {"--dtype", dtype, "--token-ids"};
    const Answers expected = answer(lines, type + Words{"--threads", "1"});
    CHECK(expected.exit_code == 0);
    for (const char* threads : {"2", "4"}) {
      CAPTURE(threads);
      CHECK(answer(lines, type + Words{"--threads", threads}).out == expected.out);
    }
    for (const std::string isa : {"portable", "avx2", "avx512", "amx", "auto"}) {
      CAPTURE(isa);
      const Answers found = answer(lines, type + Words{"--cpu-isa", isa});
      if (found.exit_code == 1 && found.err.find("this processor has") != std::string::npos) {
        MESSAGE("SKIPPED: " << isa << " is not on this processor");
        continue;
      }
      CHECK(found.out == expected.out);
    }
  }
}

TEST_CASE("dtype auto is the type of the file") {
  const std::string lines = mixed_lines(6);
  const TempDir dir;
  const Words ids = {"--token-ids"};
  const Answers as_file = answer(lines, ids + Words{"--stats", dir / "stats"});
  CHECK(as_file.out == answer(lines, ids + Words{"--dtype", "bfloat16"}).out);
  const Json summary = summary_beside(dir / "stats");
  CHECK(summary.text("/config/dtype") == "bfloat16");
}

TEST_CASE("pools, chunks and batches do not change a byte") {
  const std::string lines = mixed_lines(16);
  const Answers expected =
      answer(lines, {"--max-batch-size", "1", "--kv", "contiguous", "--chunked-prefill", "off"});
  CHECK(expected.exit_code == 0);
  const std::vector<Words> configurations = {
      {},
      {"--kv", "contiguous", "--kv-memory", "40MiB"},
      {"--batching", "static", "--max-batch-size", "5"},
      {"--block-size", "1", "--prefill-chunk-size", "7", "--max-prefill-chunks", "2"},
      {"--max-step-tokens", "24", "--max-batch-size", "8"},
      {"--num-blocks", "40", "--admission-reserve", "0", "--max-model-len", "640"}};
  for (const Words& flags : configurations) {
    CAPTURE(flags.size());
    CHECK(answer(lines, flags).out == expected.out);
  }
}

TEST_CASE("the bundled model is found by its name and by its directory") {
  const Answers expected = answer(kThreeLines);
  CHECK(answer(kThreeLines, {"--model", "story-llama"}).out == expected.out);
  CHECK(answer(kThreeLines, {"--model", bundled_model()}).out == expected.out);
  CHECK(answer(kThreeLines, {"--model", bundled_model() + "/"}).out == expected.out);
}

TEST_CASE("a model without a tokenizer completes token ids") {
  const TempDir dir;
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors"}) {
    fs::copy(bundled_model() + "/" + name, dir / name);
  }
  const std::string lines =
      R"({"prompt_token_ids": [1, 5, 9, 400], "max_tokens": 4, "ignore_eos": true}
{"prompt": "Once upon a time"}
{"prompt_token_ids": [1, 5, 9, 400], "max_tokens": 4, "ignore_eos": true, "stop": "the"}
)";
  const Answers found = answer(lines, {"--model", dir.path()});
  CHECK(found.exit_code == 2);
  REQUIRE(found.records.size() == 3);
  CHECK(found.records[0].text("/text") == "");
  CHECK(found.records[0].integers("/token_ids").size() == 4);
  CHECK(found.records[1].text("/error/code") == "no_tokenizer");

  const Answers with_words = answer(lines, {"--token-ids"});
  CHECK(with_words.records[0]["/token_ids"] == found.records[0]["/token_ids"]);
  // A stop string can't be honoured where there is no text: it must not be dropped in silence.
  CHECK(found.records[2].text("/error/code") == "no_tokenizer");
}

}  // namespace pagedinfer
