// Answers in a given form: what comes out has it, in every configuration.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/e2e.h"
#include "tests/support/grammar_support.h"
#include "tests/support/sanitized.h"

namespace pagedinfer {
namespace {

namespace fs = std::filesystem;

const std::string kPerson =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":8},)"
    R"("age":{"type":"integer","minimum":0,"maximum":99},"tags":{"type":"array",)"
    R"("items":{"enum":["a","b"]},"maxItems":3}},"required":["name","age","tags"]})";

std::string form_line(const std::string& settings, int seed = 0) {
  return fmt::format(R"({{"prompt":"Tell me of number {}.","seed":{},{}}})", seed, seed, settings) +
         "\n";
}

std::string as_schema(const std::string& schema) {
  return fmt::format(
      R"("response_format":{{"type":"json_schema","json_schema":{{"name":"x","strict":true,"schema":{}}}}})",
      schema);
}

// Lines of every kind of form among free ones, drawn and greedy, with several samples, penalties
// and log probabilities.
std::string form_lines(int count) {
  const std::vector<std::string> forms = {
      as_schema(kPerson),
      R"("guided_regex":"[A-Z][a-z]{2,8}( [a-z]+)*\\.")",
      R"("guided_choice":["yes","no","not today"])",
      R"("guided_grammar":"root ::= \"(\" root \")\" | [0-9]{1,4}")",
      R"("response_format":{"type":"json_object"})",
      R"("structured_outputs":{"regex":"\\d{3}-\\d{2}"},"ignore_eos":true)",
      R"("guided_json":{"type":"array","items":{"type":"boolean"},"maxItems":4},"min_tokens":30)",
      R"("stop":["e"])"};
  std::string lines;
  for (int i = 0; i < count; ++i) {
    std::string settings = forms[static_cast<size_t>(i) % forms.size()];
    settings += fmt::format(R"(,"max_tokens":{},"temperature":{})", 10 + i * 7 % 50,
                            i % 3 == 0   ? "0"
                            : i % 3 == 1 ? "1"
                                         : "1.5");
    if (i % 5 == 2) settings += R"(,"n":3)";
    if (i % 7 == 3) settings += R"(,"repetition_penalty":1.2,"top_p":0.9)";
    if (i % 11 == 4) settings += R"(,"logprobs":2)";
    lines += form_line(settings, i);
    if (i % 6 != 0 || i % 8 == 7) continue;
    lines +=
        form_line(fmt::format(R"({},"beam_width":{},"n":2,"max_tokens":{})",
                              forms[static_cast<size_t>(i) % forms.size()], 2 + i % 3, 20 + i % 9),
                  i);
  }
  return lines;
}

// A form that takes a second or more to compile.
std::string slow_form(int number = 0) {
  std::string schemas;
  for (int i = 0; i < 400; ++i) {
    schemas += fmt::format(
        R"({}{{"type":"object","properties":{{"k{}":{{"type":"string","maxLength":{}}}}}}})",
        i > 0 ? "," : "", i, i + 1 + number);
  }
  return fmt::format(R"("guided_json":{{"anyOf":[{}]}},"max_tokens":20)", schemas);
}

// A form that takes too much to compile.
std::string endless_form() {
  std::string rules = R"(root ::= r0)";
  for (int i = 0; i < 2500; ++i) rules += fmt::format(R"(\nr{} ::= r{} \"a\" | \"b\")", i, i + 1);
  return fmt::format(R"("guided_grammar":"{}\nr2500 ::= \"c\"")", rules);
}

}  // namespace

TEST_CASE("a completion has the form that its line asks for") {
  if (is_skipped_without_grammar()) return;
  std::string lines;
  for (int i = 0; i < 24; ++i) {
    const char* const temperature = i % 2 == 0 ? "0" : "1.5";
    const auto add = [&](const std::string& form) {
      lines +=
          form_line(fmt::format(R"({},"max_tokens":200,"temperature":{})", form, temperature), i);
    };
    add(as_schema(kPerson));
    add(R"("guided_regex":"[a-c]{2,5}-\\d{3}")");
    add(R"("guided_choice":["yes","no"])");
  }
  const Answers found = answer(lines);
  REQUIRE(found.records.size() == 72);
  for (size_t i = 0; i < found.records.size(); i += 3) {
    CAPTURE(found.records[i].line());
    const Json person(found.records[i].text("/text"));
    CHECK(person.text("/name").size() <= 8 * 4);
    CHECK(person.integer("/age") >= 0);
    CHECK(person.integer("/age") <= 99);
    CHECK(person.has("/tags"));
    CHECK(found.records[i].text("/finish_reason") == "stop");
    CHECK(std::regex_match(found.records[i + 1].text("/text"), std::regex("[a-c]{2,5}-[0-9]{3}")));
    const std::string choice = found.records[i + 2].text("/text");
    CHECK((choice == "yes" || choice == "no"));
  }
}

TEST_CASE("lines with forms among free ones give the same bytes in every configuration") {
  if (is_skipped_without_grammar()) return;
  const std::string lines = form_lines(48);
  const std::string expected = answer(lines, {"--max-batch-size", "1"}).out;
  CHECK(std::ranges::count(expected, '\n') == std::ranges::count(lines, '\n'));
  CHECK(expected.find("\"score\":") != std::string::npos);
  for (const Words& flags :
       std::vector<Words>{{},
                          {"--threads", "1", "--cpu-isa", "portable"},
                          {"--kv", "contiguous", "--max-batch-size", "4", "--max-model-len", "256"},
                          {"--num-blocks", "24", "--block-size", "8", "--max-model-len", "160"},
                          {"--batching", "static", "--max-batch-size", "5"},
                          {"--prefill-chunk-size", "3", "--prefix-cache", "off"}}) {
    CAPTURE(flags);
    CHECK(answer(lines, flags).out == expected);
  }
}

TEST_CASE("a form that matches in too many ways ends its line, and no other one, in every run") {
  if (is_skipped_without_grammar()) return;
  std::string lines;
  for (int i = 0; i < 8; ++i) {
    const std::string form = i % 2 == 0 ? R"("guided_grammar":"root ::= root root | [a-z] | \"\"")"
                                        : R"("guided_regex":"[a-z]{20}")";
    lines += form_line(form + R"(,"max_tokens":300,"temperature":1,"logit_bias":{"2":-100})", i);
  }
  const Answers found = answer(lines);
  REQUIRE(found.records.size() == 8);
  for (size_t i = 0; i < found.records.size(); ++i) {
    CAPTURE(found.records[i].line());
    if (i % 2 == 1) {
      CHECK(found.records[i].text("/text").size() == 20);
      continue;
    }
    CHECK(found.records[i].text("/error/code") == "form_impossible");
    CHECK(found.records[i].text("/error/message").find("takes too m") != std::string::npos);
    CHECK(found.records[i].text("/error/text").size() > 20);
  }
  for (const Words& flags :
       std::vector<Words>{{"--max-batch-size", "1"},
                          {"--num-blocks", "100", "--block-size", "4", "--max-model-len", "360"},
                          {"--batching", "static", "--threads", "1", "--cpu-isa", "portable"}}) {
    CAPTURE(flags);
    CHECK(answer(lines, flags).out == found.out);
  }
}

TEST_CASE("a complete form ends the answer, whatever min_tokens and ignore_eos say") {
  if (is_skipped_without_grammar()) return;
  const Answers found = answer(
      form_line(R"("guided_choice":["yes"],"min_tokens":50,"max_tokens":60)") +
      form_line(R"("guided_choice":["yes"],"ignore_eos":true,"max_tokens":60)") +
      // The end of this model, wanted as soon as it may be drawn.
      form_line(R"("guided_regex":"[0-9]{3,}","logit_bias":{"2":100},"min_tokens":50)") +
      form_line(R"("guided_regex":"[0-9]{3,}","logit_bias":{"2":100},"ignore_eos":true)") +
      form_line(R"("guided_regex":"a{40}","max_tokens":3)") +
      form_line(R"("guided_regex":"[a-z ]+END","stop":["e"],"max_tokens":60,"temperature":1)"));
  REQUIRE(found.records.size() == 6);
  for (int i : {0, 1}) {
    CHECK(found.records[static_cast<size_t>(i)].text("/text") == "yes");
    CHECK(found.records[static_cast<size_t>(i)].text("/finish_reason") == "stop");
    CHECK(found.records[static_cast<size_t>(i)].integer("/completion_tokens") == 2);  // "y", "es"
  }
  for (int i : {2, 3}) {
    const std::string digits = found.records[static_cast<size_t>(i)].text("/text");
    CHECK(std::regex_match(digits, std::regex("[0-9]{3,6}")));
    CHECK(found.records[static_cast<size_t>(i)].text("/finish_reason") == "stop");
  }
  CHECK(found.records[4].text("/finish_reason") == "length");
  CHECK(found.records[5].text("/text").find('e') == std::string::npos);
}

TEST_CASE("a form of which no token may be drawn is an error with the text so far") {
  if (is_skipped_without_grammar()) return;
  // The only token that may be drawn is no digit.
  const Answers found =
      answer(form_line(R"("guided_regex":"[0-9]{3}","allowed_token_ids":[5],"max_tokens":9)") +
             form_line(R"("guided_choice":["yes"])"));
  REQUIRE(found.records.size() == 2);
  CHECK(found.records[0].text("/error/code") == "form_impossible");
  CHECK(found.records[0].text("/error/text") == "");
  CHECK(found.records[1].text("/text") == "yes");
}

TEST_CASE("a form by flag is that of the lines that name none") {
  if (is_skipped_without_grammar()) return;
  const TempDir dir;
  write_file(dir / "schema.json",
             R"({"type":"object","properties":{"n":{"type":"integer","minimum":1,
             "maximum":9}},"required":["n"]})");
  write_file(dir / "rules.ebnf", "root ::= [a-c] [0-9]\n");
  const std::string lines =
      form_line(R"("max_tokens":40)") +
      form_line(R"("guided_choice":["yes","no"],"max_tokens":40)") +
      form_line(R"("response_format":{"type":"text"},"max_tokens":5)") +
      form_line(R"("response_format":null,"structured_outputs":{},"max_tokens":40)");
  const std::string free_text = answer(form_line(R"("max_tokens":5)")).records.at(0).text("/text");
  const auto check = [&](const Words& flags, const std::string& form) {
    CAPTURE(flags);
    const Answers found = answer(lines, flags);
    REQUIRE(found.exit_code == 0);
    for (const size_t i : {0, 3}) {
      CAPTURE(found.records[i].line());
      CHECK(std::regex_match(found.records[i].text("/text"), std::regex(form)));
      CHECK(found.records[i].text("/finish_reason") == "stop");
    }
    CHECK(std::regex_match(found.records[1].text("/text"), std::regex("yes|no")));
    CHECK(found.records[2].text("/text") == free_text);
  };
  check({"--json-schema", dir / "schema.json"}, R"re(\{"n":[1-9]\})re");
  check({"--regex", "[a-f]{4}"}, "[a-f]{4}");
  check({"--choices", "red, or so", "--choices", "blue"}, "red, or so|blue");
  check({"--grammar", dir / "rules.ebnf"}, "[a-c][0-9]");
}

TEST_CASE("JSON has white space between its parts where flag or line allow it") {
  if (is_skipped_without_grammar()) return;
  const auto text_of = [](const std::string& settings, const Words& flags) {
    // A space, wanted wherever it may be drawn.
    return answer(form_line(fmt::format(
                      R"({},"max_tokens":60,"logit_bias":{{"{}":50}})", settings,
                      answer(form_line(R"("max_tokens":1,"guided_regex":" ")"), {"--token-ids"})
                          .records.at(0)
                          .integers("/token_ids")
                          .at(0))),
                  flags)
        .records.at(0)
        .text("/text");
  };
  const std::string schema =
      R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})";
  const auto outputs = [&](const std::string& more) {
    return fmt::format(R"("structured_outputs":{{"json":{}{}}})", schema, more);
  };
  const auto has_space = [](const std::string& text) { return text.find(' ') != text.npos; };
  CHECK_FALSE(has_space(text_of(outputs(""), {})));
  CHECK(has_space(text_of(outputs(""), {"--json-whitespace"})));
  CHECK(has_space(text_of(outputs(R"(,"disable_any_whitespace":false)"), {})));
  CHECK_FALSE(
      has_space(text_of(outputs(R"(,"disable_any_whitespace":true)"), {"--json-whitespace"})));
}

TEST_CASE("a bad form by flag is refused before anything is loaded, with file and reason") {
  if (is_skipped_without_grammar()) return;
  const TempDir dir;
  write_file(dir / "not.json", R"({"type":"object","not":{}})");
  write_file(dir / "cut.json", R"({"type":)");
  write_file(dir / "bytes.json", "\xff");
  write_file(dir / "rules.ebnf", "root ::= nothing");
  const auto refusal = [&](const Words& flags) {
    const Answers found =
        answer(form_line(R"("max_tokens":1)"), flags + Words{"--model", dir / "none"});
    CHECK(found.exit_code == 1);
    CHECK(found.err.find("none") == std::string::npos);
    return found.err;
  };
  const auto names = [](const std::string& message, const std::vector<std::string>& words) {
    CAPTURE(message);
    for (const std::string& word : words) CHECK(message.find(word) != std::string::npos);
  };
  names(refusal({"--json-schema", dir / "not.json"}), {"--json-schema", "not.json", "not"});
  names(refusal({"--json-schema", dir / "cut.json"}), {"--json-schema", "cut.json", "JSON"});
  names(refusal({"--json-schema", dir / "bytes.json"}), {"--json-schema", "bytes.json", "UTF-8"});
  names(refusal({"--json-schema", dir / "absent.json"}), {"--json-schema", "absent.json"});
  names(refusal({"--grammar", dir / "rules.ebnf"}), {"--grammar", "rules.ebnf", "nothing"});
  names(refusal({"--regex", "(a"}), {"--regex (a", "group has no end"});
  for (const char* flag : {"--json-schema", "--regex", "--choices", "--grammar"}) {
    names(refusal({flag, ""}), {flag, "found nothing"});
  }
  names(refusal({"--choices", "a,b"}), {"--choices a,b", "once for each"});
  names(refusal({"--regex", "a", "--grammar", dir / "rules.ebnf"}),
        {"--regex and --grammar", "give one of them"});
}

TEST_CASE("a beam search keeps to the form, and ends where no beam can go on") {
  if (is_skipped_without_grammar()) return;
  const Answers found =
      answer(form_line(R"("guided_choice":["yes","no","maybe"],"beam_width":4,"n":4)") +
             form_line(as_schema(kPerson) + R"(,"beam_width":3,"n":3,"max_tokens":100)") +
             form_line(R"("guided_regex":"a{40}","beam_width":2,"max_tokens":5)"));
  REQUIRE(found.records.size() == 3);
  for (int i = 0; i < 3; ++i) {
    const std::string choice = found.records[0].text(fmt::format("/choices/{}/text", i));
    CHECK((choice == "yes" || choice == "no" || choice == "maybe"));
    const Json person(found.records[1].text(fmt::format("/choices/{}/text", i)));
    CHECK(person.integer("/age") <= 99);
  }
  CHECK(found.records[2].text("/finish_reason") == "length");
}

TEST_CASE("a bad form is an error of its line, and nothing of it reaches standard error") {
  if (is_skipped_without_grammar()) return;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {as_schema(R"({"not":{}})"), "unsupported_schema"},
      {as_schema(R"({"oneOf":[{"type":"integer"},{"type":"number"}]})"), "unsupported_schema"},
      {as_schema("3"), "invalid_value"},
      {R"("guided_regex":"(")", "invalid_form"},
      {R"("guided_grammar":"root ::= nothing")", "invalid_form"},
      {R"("guided_choice":[])", "invalid_value"},
      {R"("guided_choice":["a"],"guided_regex":"a")", "invalid_value"},
      {R"("response_format":{"type":"structural_tag"})", "unsupported"},
      {R"("response_format":{"type":"json_object","schema":{}})", "unsupported"},
      {R"("guided_regex":"a","guided_whitespace_pattern":"[ ]*")", "unsupported"},
      {R"("structured_outputs":{"structural_tag":"x"})", "unsupported"}};
  std::string lines;
  for (const auto& [settings, code] : cases) lines += form_line(settings);
  const Answers found = answer(lines, {"--quiet"});
  CHECK(found.err.ends_with("\n" + last_line(0, cases.size())));
  REQUIRE(found.records.size() == cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(cases[i].first);
    CHECK(found.records[i].text("/error/code") == cases[i].second);
  }
}

TEST_CASE(
    "lines pass one whose form is being compiled, and the records are the same in every run") {
  if (is_skipped_without_grammar()) return;
  if (is_skipped_when_sanitized("the model is slower than the compiler of forms")) return;
  std::string lines =
      form_line(slow_form()) + form_line(endless_form()) + form_line(slow_form(1), 5);
  for (int i = 0; i < 40; ++i) {
    lines += form_line(i % 4 == 3 ? R"("guided_choice":["yes","no"])" : R"("max_tokens":4)", i);
  }
  const Answers passed = answer(lines, {"--order", "completion"});
  REQUIRE(passed.records.size() == 43);
  for (size_t i = 0; i < 40; ++i) CHECK(passed.records[i].integer("/index") > 2);
  const Answers found = answer(lines);
  REQUIRE(found.records.size() == 43);
  CHECK(found.records[0].has("/text"));
  CHECK(found.records[1].text("/error/code") == "invalid_form");
  CHECK(found.records[1].text("/error/message").find("takes more than") != std::string::npos);
  for (const Words& flags :
       std::vector<Words>{{"--threads", "1", "--max-batch-size", "1"},
                          {"--batching", "static", "--max-batch-size", "5", "--threads", "2"}}) {
    CAPTURE(flags);
    CHECK(answer(lines, flags).out == found.out);
  }
}

TEST_CASE("a signal ends a run while a form is being compiled, and resumed it has all records") {
  if (is_skipped_without_grammar()) return;
  const TempDir dir;
  std::string lines = form_line(slow_form());
  for (int i = 0; i < 5; ++i) lines += form_line(R"("max_tokens":4)", i);
  write_file(dir / "in.jsonl", lines);
  const Words flags = {"--input", dir / "in.jsonl", "--order", "completion", "--output"};
  CHECK(run(flags + Words{dir / "whole"}).exit_code == 0);
  Process process(command(Words{"run"} + flags + Words{dir / "out"}));
  const auto num_records = [&] {
    const std::string records = fs::exists(dir / "out") ? read_file(dir / "out") : "";
    return std::ranges::count(records, '\n');
  };
  process.wait_until([&] { return num_records() == 5; });
  const auto begin = std::chrono::steady_clock::now();
  process.send(SIGINT);
  CHECK(process.wait().exit_code == 130);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  CHECK(num_records() == 5);
  CHECK(run(flags + Words{dir / "out", "--resume"}).exit_code == 0);
  CHECK(read_file(dir / "out") == read_file(dir / "whole"));
}

}  // namespace pagedinfer
