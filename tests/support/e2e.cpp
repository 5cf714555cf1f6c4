#include "tests/support/e2e.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace pagedinfer {

Json::Json(std::string_view line)
    : line_(line), parser_(std::make_unique<simdjson::dom::parser>()) {
  CAPTURE(line_);
  REQUIRE(parser_->parse(line_).get(root_) == simdjson::SUCCESS);
}

bool Json::has(std::string_view pointer) const {
  return root_.at_pointer(pointer).error() == simdjson::SUCCESS;
}

std::string Json::operator[](std::string_view pointer) const {
  simdjson::dom::element value;
  if (root_.at_pointer(pointer).get(value) != simdjson::SUCCESS) return "absent";
  return simdjson::minify(value);
}

std::string Json::text(std::string_view pointer) const {
  std::string_view value;
  CAPTURE(line_);
  CAPTURE(pointer);
  REQUIRE(root_.at_pointer(pointer).get(value) == simdjson::SUCCESS);
  return std::string(value);
}

int64_t Json::integer(std::string_view pointer) const {
  int64_t value = 0;
  CAPTURE(line_);
  CAPTURE(pointer);
  REQUIRE(root_.at_pointer(pointer).get(value) == simdjson::SUCCESS);
  return value;
}

double Json::number(std::string_view pointer) const {
  double value = 0;
  CAPTURE(line_);
  CAPTURE(pointer);
  REQUIRE(root_.at_pointer(pointer).get(value) == simdjson::SUCCESS);
  return value;
}

std::vector<int64_t> Json::integers(std::string_view pointer) const {
  simdjson::dom::array list;
  CAPTURE(line_);
  CAPTURE(pointer);
  REQUIRE(root_.at_pointer(pointer).get(list) == simdjson::SUCCESS);
  std::vector<int64_t> values;
  for (const simdjson::dom::element item : list) values.push_back(int64_t(item));
  return values;
}

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    REQUIRE(end != std::string::npos);
    lines.emplace_back(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::vector<Json> json_file(const std::string& path) {
  CAPTURE(path);
  REQUIRE(std::filesystem::exists(path));
  return json_lines(read_file(path));
}

Json summary_beside(std::string stats) {
  for (const std::string_view ending : {".jsonl", ".stats"}) {
    if (stats.ends_with(ending)) stats.resize(stats.size() - ending.size());
  }
  std::vector<Json> lines = json_file(stats + ".summary.json");
  REQUIRE(lines.size() == 1);
  return std::move(lines.front());
}

std::vector<Json> of_kind(std::vector<Json> lines, std::string_view kind) {
  std::erase_if(lines, [&](const Json& line) { return line.text("/kind") != kind; });
  return lines;
}

Words command(const Words& words) { return Words{built_program()} + words; }

std::string last_line(size_t completed, size_t failed, const std::string& model) {
  return fmt::format("{}: {} {} completed, {} ended in an error record\n", model, completed,
                     completed == 1 ? "line" : "lines", failed);
}

Ended run(const Words& flags, std::string_view input) {
  Ended ended = run_program(command(Words{"run"} + flags), input);
  CAPTURE(ended.err);
  CHECK(!ended.timed_out);
  CHECK(ended.exit_code < 128);
  return ended;
}

Answers answer(std::string_view lines, const Words& flags) {
  Ended ended = run(Words{"--input", "-", "--output", "-"} + flags, lines);
  std::vector<Json> records = json_lines(ended.out);
  return {ended.exit_code, std::move(ended.out), std::move(ended.err), std::move(records)};
}

std::string uneven_lines(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    lines += "{\"id\": " + std::to_string(i) +
             ", \"prompt_token_ids\": [5], \"ignore_eos\": true, \"max_tokens\": " +
             std::to_string(1 + i * 37 % 50) + "}\n";
  }
  return lines;
}

std::string lines_with_long_ids(int count) {
  const std::string id(500, 'x');
  std::string lines;
  for (int i = 0; i < count; ++i) {
    lines += "{\"id\": \"" + id + "\", \"prompt_token_ids\": [5], \"max_tokens\": 1}\n";
  }
  return lines;
}

std::set<std::string> names_in(const std::string& dir) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string varied_prompts() {
  std::string lines;
  for (int i = 0; i < 12; ++i) {
    std::string prompt = "Once upon a time";
    for (int words = 0; words < i * i; ++words) prompt += " Lily has a red ball.";
    lines += R"({"id": )" + std::to_string(i) + R"(, "prompt": ")" + prompt +
             R"(", "max_tokens": )" + std::to_string(4 + i);
    if (i % 3 == 1) lines += R"(, "temperature": 0.9)";
    if (i % 4 == 2) lines += R"(, "n": 3)";
    if (i % 5 == 3) lines += R"(, "logprobs": 2)";
    lines += "}\n";
  }
  return lines;
}

void check_same_in_every_configuration(const Words& flags) {
  const std::string lines = varied_prompts();
  const std::string expected = answer(lines, flags).out;
  CHECK(expected.find("error") == std::string::npos);
  CHECK(answer(lines).out != expected);
  for (const Words& more :
       {Words{"--kv", "contiguous"}, Words{"--block-size", "1"}, Words{"--threads", "1"},
        Words{"--threads", "3"}, Words{"--num-blocks", "50"},  // some are preempted
        Words{"--max-batch-size", "1"}, Words{"--prefill-chunk-size", "7"},
        Words{"--prefix-cache", "off"}, Words{"--cpu-isa", "portable"},
        Words{"--cpu-isa", "avx2"}}) {
    CAPTURE(more[0]);
    CAPTURE(more[1]);
    CHECK(answer(lines, flags + more).out == expected);
  }
}

}  // namespace pagedinfer
