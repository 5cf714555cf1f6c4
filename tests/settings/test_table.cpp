// Properties of the table of settings: one range for every source, a row for every field.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "io/json_file.h"
#include "io/line_reader.h"
#include "model/generation_config.h"
#include "request/request_parser.h"
#include "settings/table.h"
#include "settings/values.h"
#include "tests/support/paths.h"
#include "tests/support/support.h"

namespace pagedinfer {
namespace {

// What is said of a value, from what was found on; "" if it is taken.
std::string complaint(const std::string& message) {
  const size_t found = message.find(": found ");
  return found == std::string::npos ? message : message.substr(found);
}

std::string said_of_a_flag(const Setting& setting, const std::string& text) {
  try {
    Config config = {.input = "prompts.jsonl"};
    give(setting.key, text, config);
    check_values(config);
  } catch (const Error& error) {
    CHECK(std::string(error.what()).starts_with(flag_of(setting)));
    return complaint(error.what());
  }
  return "";
}

// Of a Config that no flag has filled.
bool is_taken_as_a_field(const Setting& setting, const Value& value) {
  Config config = {.input = "prompts.jsonl"};
  setting.field.set(config, value);
  try {
    check_values(config);
  } catch (const Error&) {
    return false;
  }
  return true;
}

std::string said_of_a_line(const Setting& setting, const std::string& json) {
  RequestParser parser({});
  std::string line =
      fmt::format(R"({{"prompt": "x", "max_tokens": {}, "{}": {}}})", kMaxCount, setting.key, json);
  const size_t size = line.size();
  line.append(kLinePadding, ' ');
  const RequestError error = parser.parse(std::string_view(line).substr(0, size), 0, 1).error;
  CHECK(parser.take_unknown_keys().empty());
  if (error.code.empty()) return "";
  CHECK(error.code == "invalid_value");
  CHECK(error.message.starts_with(setting.key));
  return complaint(error.message);
}

std::string said_of_a_file(const Setting& setting, const std::string& json) {
  ModelSpec spec;
  const JsonFile file("generation_config.json", fmt::format(R"({{"do_sample": true, "{}": {}}})",
                                                            setting.generation_key, json));
  try {
    (void)read_generation_config(file.root(), spec);
  } catch (const Error& error) {
    CHECK(std::string(error.what()).starts_with("generation_config.json: "));
    return complaint(error.what());
  }
  return "";
}

struct Case {
  std::string text;
  bool taken;
};

// The ends of the range and what lies just outside of it.
std::vector<Case> ends_of(IntegerRange range) {
  const auto text = [](__int128 number) {
    return number > std::numeric_limits<int64_t>::max() ? std::string("9223372036854775808")
                                                        : std::to_string(static_cast<long>(number));
  };
  return {{text(__int128{range.from} - 1), false},
          {text(range.from), true},
          {text(range.to), true},
          {text(__int128{range.to} + 1), false},
          {text(range.from) + ".5", false}};
}
std::vector<Case> ends_of(NumberRange range) {
  const auto text = [](double number) { return fmt::format("{:.17g}", number); };
  const double little = 1e-6;
  return {{text(range.from - little), false}, {text(range.from), !range.above},
          {text(range.from + little), true},  {text(range.to - little), true},
          {text(range.to), !range.below},     {text(range.to + little), false}};
}

TEST_CASE("a setting takes the same values as a flag, in a line and in the model's files") {
  int num_ranges = 0, in_lines = 0, in_files = 0;
  for (const Setting& setting : kSettings) {
    if (setting.kind == Kind::kBytes) continue;
    std::vector<Case> cases;
    if (const auto* range = std::get_if<IntegerRange>(&setting.range)) cases = ends_of(*range);
    if (const auto* range = std::get_if<NumberRange>(&setting.range)) cases = ends_of(*range);
    if (!cases.empty()) ++num_ranges;
    for (const auto& [text, taken] : cases) {
      CAPTURE(setting.key);
      CAPTURE(text);
      const std::string said = said_of_a_flag(setting, text);
      CHECK(said.empty() == taken);
      if (!taken) CHECK(said == fmt::format(": found {}, expected {}", text, expected_of(setting)));
      if (setting.in_line) {
        ++in_lines;
        CHECK((said_of_a_line(setting, text) == "") == taken);
        if (!taken) {
          CHECK(said_of_a_line(setting, text).find("expected " + expected_of(setting)) !=
                std::string::npos);
        }
      }
      if (!setting.generation_key.empty()) {
        ++in_files;
        CHECK(said_of_a_file(setting, text) == said_of_a_line(setting, text));
      }
    }
  }
  CHECK(num_ranges >= 20);
  CHECK(in_lines >= 9 * 5);
  CHECK(in_files >= 5 * 5);
}

TEST_CASE("a value out of range is refused however it came into the configuration") {
  int num_ranges = 0;
  for (const Setting& setting : kSettings) {
    CAPTURE(setting.key);
    if (const auto* range = std::get_if<IntegerRange>(&setting.range)) {
      ++num_ranges;
      CHECK_FALSE(is_taken_as_a_field(setting, range->from - 1));
      CHECK(is_taken_as_a_field(setting, range->from));
    }
    if (const auto* range = std::get_if<NumberRange>(&setting.range)) {
      ++num_ranges;
      for (const double bad : {range->from - 0.01, range->to + 1, std::nan("")}) {
        CHECK_FALSE(is_taken_as_a_field(setting, bad));
      }
      CHECK(is_taken_as_a_field(setting, range->from) == !range->above);
      CHECK(is_taken_as_a_field(setting, range->to) == !range->below);
    }
  }
  CHECK(num_ranges >= 20);
}

TEST_CASE("every setting of a line takes what it is, and nothing of another type") {
  int num_settings = 0;
  for (const Setting& setting : kSettings) {
    if (!setting.in_line) continue;
    ++num_settings;
    int taken = 0;
    CAPTURE(setting.key);
    for (const char* json : {"true", "\"text\"", "1", "[2]", "[\"a\", \"b\"]", "{\"a\": 1}"}) {
      if (said_of_a_line(setting, json).empty()) ++taken;
    }
    // A text is as good as a list of it.
    CHECK(taken == (setting.kind == Kind::kTexts ? 2 : 1));
    CHECK(said_of_a_line(setting, "null") == "");
  }
  CHECK(num_settings >= 15);
}

TEST_CASE("every field of the configuration has a row, and every row a field of its own") {
  std::string header = read_file(source_dir() + "/src/settings/config.h");
  header = header.substr(header.find("struct Config {"));
  header = std::regex_replace(header, std::regex("enum class \\w+ : uint8_t \\{[^}]*\\}"), "");
  std::set<std::string> fields;
  const std::regex field(R"((\w+)(?: = |\{)[^;]*;)");
  for (std::sregex_iterator it(header.begin(), header.end(), field), end; it != end; ++it) {
    fields.insert((*it)[1]);
  }
  CHECK(fields.erase("sampling") == 1);
  CHECK(fields.size() > 35);
  std::set<std::string_view> keys;
  for (const Setting& setting : kSettings) {
    CAPTURE(setting.key);
    CHECK(keys.insert(setting.key).second);
    CHECK((setting.field.is_sampling() || fields.erase(std::string(setting.key)) == 1));
    CHECK((setting.in_line || setting.is_flag));
    CHECK((!setting.in_line || setting.field.is_sampling()));
    CHECK((!setting.field.is_sampling() || setting.effect == Effect::kChangesRecords));
    CHECK(setting.help.ends_with("."));
    CHECK(setting.when.ends_with("."));
  }
  for (const std::string& name : fields) FAIL_CHECK(name << " has no row");
}

TEST_CASE("a value that was given is the one that --help would show as a default") {
  for (const Setting& setting : kSettings) {
    const Value unless_given = setting.field.get(Config{});
    if (std::holds_alternative<std::monostate>(unless_given) || !setting.is_flag) continue;
    const std::string text = text_of(setting, unless_given);
    if (text.empty() || setting.kind == Kind::kSwitch || text == "[]") continue;
    CAPTURE(setting.key);
    Config config;
    give(setting.key, text, config);
    CHECK(text_of(setting, setting.field.get(config)) == text);
  }
}

}  // namespace
}  // namespace pagedinfer
