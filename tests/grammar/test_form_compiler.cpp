#include <doctest/doctest.h>
#include <fmt/format.h>
#include <malloc.h>

#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "grammar/form_compiler.h"
#include "grammar/token_matcher.h"
#include "tests/support/grammar_support.h"
#include "tests/support/sanitized.h"

using namespace pagedinfer;

namespace {

std::string code_of(FormCompiler& compiler, const AnswerForm& form) {
  const auto outcome = compiler.compile(form);
  return std::string(outcome ? "" : outcome.error().code.name());
}

}  // namespace

TEST_CASE("what the library warns of or refuses is an error of the form") {
  if (is_skipped_without_grammar()) return;
  FormCompiler compiler(byte_tokens);
  const std::string range = R"({"type": "integer", "minimum": 5, "maximum": 3})";
  CHECK(code_of(compiler, {.kind = FormKind::kJsonSchema, .texts = {range}}) ==
        "unsupported_schema");
  CHECK(code_of(compiler, {.kind = FormKind::kGrammar, .texts = {"root ::= "}}) == "invalid_form");
  CHECK(code_of(compiler, {.kind = FormKind::kGrammar, .texts = {"root ::= other"}}) ==
        "invalid_form");
  CHECK(code_of(compiler, {.kind = FormKind::kGrammar, .texts = {"root ::= \"a\" | \"b\" root"}}) ==
        "");
}

TEST_CASE("what the library drops or refuses of a schema is told with its path") {
  if (is_skipped_without_grammar()) return;
  FormCompiler compiler(byte_tokens);
  const auto message_of = [&](const AnswerForm& form) {
    const auto outcome = compiler.compile(form);
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == "unsupported_schema");
    return outcome.error().message;
  };
  const auto of_schema = [&](const std::string& schema) {
    return message_of({.kind = FormKind::kJsonSchema, .texts = {schema}});
  };
  const auto is_about = [](const std::string& message, const std::string& path) {
    CAPTURE(message);
    CHECK(message.starts_with(path + ": "));
    CHECK(message.find(';') == message.npos);  // what it would do about it
  };
  const std::string range = R"({"type": "integer", "minimum": 5, "maximum": 3})";
  const std::string either = fmt::format(R"({{"oneOf": [{{"$ref": "#/$defs/n"}}, {}]}})", range);
  const std::string null = R"("n": {"type": "null"})";
  is_about(of_schema(fmt::format(R"({{"properties": {{"a": {{}}, "b": {}}}, "$defs": {{{}}}}})",
                                 either, null)),
           "#/properties/b/oneOf/1");
  is_about(of_schema(fmt::format(
               R"({{"$ref": "#/$defs/x", "$defs": {{"x": {{"items": {}}}, {}}}}})", either, null)),
           "#/$defs/x/items/oneOf/1");
  is_about(of_schema(fmt::format(R"({{"anyOf": [{{"type": "null"}}, {}]}})", range)), "#/anyOf/1");
  is_about(of_schema(R"({"prefixItems": [{"type": "integer", "multipleOf": 7, "minimum": 5}]})"),
           "#/prefixItems/0");
  const std::string call = fmt::format(R"({{"properties": {{"n": {}}}}})", range);
  is_about(message_of({.kind = FormKind::kCall, .texts = {"f", "{}", "g", call}}),
           "tools[1].function.parameters: #/properties/n");
}

TEST_CASE("schemas that differ below the name of an annotation stay apart") {
  if (is_skipped_without_grammar()) return;
  FormCompiler compiler(byte_tokens);
  const auto accepts = [&](const std::string& x, const std::string& y, std::string_view answer) {
    const std::string schema =
        fmt::format(R"({{"required": ["x", "y"], "properties": {{"x": {}, "y": {}}}}})", x, y);
    const auto outcome = compiler.compile({.kind = FormKind::kJsonSchema, .texts = {schema}});
    REQUIRE(outcome);
    TokenMatcher matcher(*outcome);
    for (const char c : answer) {
      CAPTURE(c);
      REQUIRE(matcher.accept(c));
    }
    CHECK(matcher.is_complete());
  };
  accepts(R"({"properties": {"title": {"const": 1}}, "required": ["title"]})",
          R"({"properties": {"title": {"const": 2}}, "required": ["title"]})",
          R"({"x":{"title":1},"y":{"title":2}})");
  accepts(R"({"const": {"a": {"title": 1}}})", R"({"const": {"a": {"title": 2}}})",
          R"({"x":{"a":{"title":1}},"y":{"a":{"title":2}}})");
  accepts(R"({"enum": [[{"default": 1}]]})", R"({"enum": [[{"default": 2}]]})",
          R"({"x":[{"default":1}],"y":[{"default":2}]})");
}

// Functions of which each has so many strings of lengths of their own.
AnswerForm call(int num_functions, int num_strings) {
  std::vector<std::string> texts;
  for (int i = 0; i < num_functions; ++i) {
    std::string properties;
    for (int k = 0; k < num_strings; ++k) {
      properties += fmt::format(R"({}"p{}":{{"type":"string","maxLength":{}}})", k > 0 ? "," : "",
                                k, 60 + i + k);
    }
    texts.push_back(fmt::format("f{}", i));
    texts.push_back(fmt::format(R"({{"type":"object","properties":{{{}}}}})", properties));
  }
  return {.kind = FormKind::kCall, .texts = texts};
}

TEST_CASE("a form that takes too many steps or too much memory is refused at once") {
  if (is_skipped_without_grammar()) return;
  FormCompiler compiler(byte_tokens);
  const std::atomic<bool> goes_on = false;
  const AnswerForm form = call(2, 2);
  const auto error_within = [&](int64_t max_steps, int64_t max_bytes) {
    const auto attempt =
        compiler.attempt(form, {.max_steps = max_steps, .max_bytes = max_bytes}, goes_on);
    CHECK(attempt.gave_up == !attempt.outcome);
    if (attempt.outcome) return std::string();
    const RequestError& error = attempt.outcome.error();
    return fmt::format("{}: {}", error.code.name(), error.message);
  };
  constexpr int64_t kMany = int64_t{1} << 40;
  CHECK(error_within(kMany, kMany).empty());
  CHECK(error_within(100'000, kMany) ==
        "invalid_form: tools: to compile them takes more than 100000 steps");
  CHECK(error_within(kMany, 1 << 20) ==
        "invalid_form: tools: to compile them takes more than 1 MiB");
  // The counts are a function of the form: the limit that is just enough stays so.
  int64_t few = 0, enough = 16'000'000;
  while (enough - few > 1) {
    const int64_t middle = few + (enough - few) / 2;
    (error_within(middle, kMany).empty() ? enough : few) = middle;
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, enough = enough] {
      CHECK(error_within(enough, kMany).empty());
      CHECK_FALSE(error_within(enough - 1, kMany).empty());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("a compiled form says what it takes, and what compiling took is free again") {
  if (is_skipped_without_grammar()) return;
  if (is_skipped_when_sanitized("sanitizers have an allocator of their own")) return;
  FormCompiler compiler(byte_tokens);
  static_cast<void>(compiler.compile({.kind = FormKind::kChoices, .texts = {"a"}}));
  const auto allocated = [] {
    const struct mallinfo2 info = mallinfo2();
    return static_cast<int64_t>(info.uordblks + info.hblkhd);
  };
  const int64_t before = allocated();
  const auto outcome = compiler.compile(call(3, 20));
  REQUIRE(outcome);
  const int64_t taken = allocated() - before;
  const int64_t told = outcome->num_bytes();
  MESSAGE("takes " << taken << " bytes, says " << told);
  CHECK(told > 1'000'000);
  CHECK(told > taken - taken / 16);
  CHECK(told < taken + taken / 4);
}
