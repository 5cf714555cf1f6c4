// A sampling setting takes the same values wherever it stands.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "core/error.h"
#include "engine/validate.h"
#include "io/line_reader.h"
#include "model/model.h"
#include "request/request_parser.h"
#include "tests/support/e2e.h"
#include "tests/support/support.h"
#include "tests/support/tiny_model.h"

using namespace pagedinfer;

namespace {

// What is said of a value, from "expected" on; "" if it is taken.
std::string expectation(const std::string& message) {
  return message.empty() ? "" : message.substr(message.find("expected"));
}

std::string said_in_a_line(const std::string& key, const std::string& value) {
  RequestParser parser({});
  std::string line = fmt::format(R"({{"prompt": "x", "{}": {}}})", key, value);
  const size_t size = line.size();
  line.append(kLinePadding, ' ');
  return expectation(parser.parse(std::string_view(line).substr(0, size), 0, 1).error.message);
}

std::string said_of_a_flag(const std::string& key, const std::string& value) {
  Config config;
  config.input = "prompts.jsonl";
  Config::Sampling& to = config.sampling;
  const float number = std::stof(value);
  if (key == "temperature") to.temperature = number;
  if (key == "top_p") to.top_p = number;
  if (key == "min_p") to.min_p = number;
  if (key == "repetition_penalty") to.repetition_penalty = number;
  if (key == "top_k") to.top_k = std::stoi(value);
  try {
    validate(config);
  } catch (const Error& error) {
    return expectation(error.what());
  }
  return "";
}

std::string said_of_a_file(const std::string& key, const std::string& value) {
  const TinyModel files;
  write_file(files.dir() + "/generation_config.json",
             fmt::format(R"({{"do_sample": true, "{}": {}}})", key, value));
  try {
    (void)open_model(files.dir());
  } catch (const Error& error) {
    return expectation(error.what());
  }
  return "";
}

}  // namespace

TEST_CASE("a sampling setting has one range in a line, as a flag and in the model's files") {
  struct Case {
    const char *key, *value;
    bool taken;
  };
  for (const Case& c : {Case{"temperature", "0", true},
                        {"temperature", "-0.1", false},
                        {"temperature", "10000", true},
                        {"temperature", "10001", false},
                        {"top_p", "0", false},
                        {"top_p", "1e-9", true},
                        {"top_p", "1", true},
                        {"top_p", "1.01", false},
                        {"min_p", "0", true},
                        {"min_p", "-0.1", false},
                        {"min_p", "1.01", false},
                        {"repetition_penalty", "0.0005", false},
                        {"repetition_penalty", "0.001", true},
                        {"repetition_penalty", "1000", true},
                        {"repetition_penalty", "1001", false},
                        {"top_k", "-2", false},
                        {"top_k", "-1", true},
                        {"top_k", "0", true}}) {
    CAPTURE(c.key);
    CAPTURE(c.value);
    const std::string in_a_line = said_in_a_line(c.key, c.value);
    CHECK(in_a_line.empty() == c.taken);
    CHECK(said_of_a_flag(c.key, c.value) == in_a_line);
    CHECK(said_of_a_file(c.key, c.value) == in_a_line);
  }
}

TEST_CASE("top-k -1 is off, as a flag too") {
  const TempDir dir;
  write_file(dir / "in.jsonl", "{\"prompt\": \"Hi\", \"max_tokens\": 2}\n");
  const auto top_k = [&](const Words& flags) {
    const Ended ended = run(Words{"--input", dir / "in.jsonl", "--output", dir / "out.jsonl",
                                  "--stats", dir / "stats.jsonl", "--overwrite", "--quiet"} +
                            flags);
    REQUIRE_MESSAGE(ended.exit_code == 0, ended.err);
    return of_kind(json_file(dir / "stats.jsonl"), "summary").back()["/config/top_k"];
  };
  CHECK(top_k({"--top-k", "-1"}) == "0");
  CHECK(top_k({"--top-k=-1"}) == "0");
}
