// Files as people have them: from editors that leave marks, from pipes that broke, of any size.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "tests/support/e2e.h"
#include "tests/support/sanitized.h"

namespace pagedinfer {
namespace {

constexpr size_t kMegabyte = 1 << 20;

const std::string kGood = R"({"id":"good","prompt":"Nora","max_tokens":2})"
                          "\n";

}  // namespace

TEST_CASE("marks at the start and the ends of lines change no byte of the answers") {
  const std::string lines = kGood + "{\"prompt\": 5}\n" + kGood;
  const Answers plain = answer(lines);
  std::string dressed = "\xEF\xBB\xBF";
  for (const char c : lines) dressed += c == '\n' ? "\r\n" : std::string(1, c);
  dressed.resize(dressed.size() - 2);
  CHECK(answer(dressed).out == plain.out);
  CHECK(plain.records.size() == 3);
}

TEST_CASE("lines of 64 MB and lines of NULs are answered, and delay no other line") {
  const std::string mb(64 * kMegabyte, 'a');
  const std::string words = [&] {
    std::string text;
    while (text.size() < 64 * kMegabyte) text += "Once upon a time ";
    return text;
  }();
  const TempDir dir;
  write_file(dir / "in.jsonl", "{\"prompt\":\"" + words + "\"}\n" + kGood + "{\"prompt\":\"" + mb +
                                   "\"}\n" + mb + "\n" + std::string(8 * kMegabyte, '\0') + "\n" +
                                   "{\"junk\":\"" + mb + "\"," + kGood.substr(1));
  const Ended ended = run({"--input", dir / "in.jsonl", "--quiet"});
  CHECK(ended.exit_code == 2);
  const std::vector<Json> records = json_file(dir / "in.completions.jsonl");
  REQUIRE(records.size() == 6);
  CHECK(records[0].text("/error/code") == "prompt_too_long");
  CHECK(records[0].text("/error/message").find("bytes") != std::string::npos);
  CHECK(records[1].text("/finish_reason") == "length");
  CHECK(records[2].text("/error/code") == "prompt_too_long");
  CHECK(records[3].text("/error/code") == "invalid_json");
  CHECK(records[4].text("/error/code") == "invalid_json");
  CHECK(records[5].text("/text") == records[1].text("/text"));
  for (const Json& record : records) CHECK(record.line().size() < 1000);
}

TEST_CASE("ten million blank lines cost no memory") {
  const auto with_blank_lines = [](size_t count) {
    const TempDir dir;
    // It computes for a while, so that we see its memory however soon the lines are read.
    std::string text = R"({"prompt_token_ids": [5], "max_tokens": 2000, "ignore_eos": true})";
    text += "\n";
    for (size_t i = 0; i < count; ++i) text += i % 4 == 0 ? " \t\r\n" : "\n";
    write_file(dir / "in.jsonl", text + kGood);
    const Ended ended = run({"--input", dir / "in.jsonl", "--quiet"});
    CHECK(ended.exit_code == 0);
    CHECK(json_file(dir / "in.completions.jsonl").size() == 2);
    return ended.peak_memory;
  };
  const int64_t few = with_blank_lines(1000), many = with_blank_lines(10'000'000);
  if (!kSanitized) CHECK(many - few < int64_t{8} << 20);
}

}  // namespace pagedinfer
