// The limit on what it may take to match a text.
#include <doctest/doctest.h>
#include <malloc.h>

#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "grammar/form_compiler.h"
#include "grammar/token_matcher.h"
#include "tests/support/grammar_support.h"

using namespace pagedinfer;

namespace {

CompiledForm compile(const AnswerForm& form) {
  FormCompiler compiler(byte_tokens);
  return *compiler.compile(form);
}

// Matches the text that `byte_at` gives, at most `length` bytes of it, with a mask before each
// byte. Returns how many were matched before the form was given up.
int matched_bytes(
    TokenMatcher matcher, int length, const std::function<char(int)>& byte_at,
    const std::function<void(TokenMatcher&)>& between = [](TokenMatcher&) {}) {
  std::vector<uint32_t> mask(8);
  for (int i = 0; i < length; ++i) {
    try {
      matcher.fill(mask);
      const bool is_accepted = matcher.accept(static_cast<TokenId>(byte_at(i)));
      REQUIRE(is_accepted);
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find("to match the text takes too m") != std::string::npos);
      return i;
    }
    between(matcher);
  }
  return length;
}

// Leaves the matcher as it was.
void try_wrong_token(TokenMatcher& matcher) {
  try {
    const bool is_accepted = matcher.accept('z');
    CHECK_FALSE(is_accepted);
  } catch (const Error&) {  // it can no more follow another one
  }
}

char letter_a(int) { return 'a'; }

int64_t allocated_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

}  // namespace

TEST_CASE("what matches in very many ways is given up, always at the same token") {
  if (is_skipped_without_grammar()) return;
  std::mt19937 random(11);
  for (const AnswerForm& form : std::vector<AnswerForm>{
           {.kind = FormKind::kGrammar, .texts = {R"(root ::= root root | "a" | "")"}},
           {.kind = FormKind::kRegex, .texts = {"((a|aa|b?)*(a|b?)*){9}"}}}) {
    const CompiledForm compiled = compile(form);
    const int end = matched_bytes(TokenMatcher(compiled), 2000, letter_a);
    MESSAGE(form.texts[0] << " is given up after " << end << " bytes");
    CHECK(end > 30);
    CHECK(end < 2000);
    // Also where copies went their way and wrong tokens were tried.
    CHECK(matched_bytes(TokenMatcher(compiled), 2000, letter_a, [&](TokenMatcher& matcher) {
            if (random() % 2 == 0) matcher = matcher.fork();
            if (random() % 2 == 0) try_wrong_token(matcher);
          }) == end);
  }
}

TEST_CASE("what matches in one way is not given up, however long it is") {
  if (is_skipped_without_grammar()) return;
  constexpr int kDepth = 1000;
  const auto check = [](const AnswerForm& form, const std::function<char(int)>& byte_at,
                        int length = 4000) {
    INFO(std::string(form.texts.empty() ? "JSON" : form.texts[0]));
    CHECK(matched_bytes(TokenMatcher(compile(form)), length, byte_at) == length);
  };
  check({.kind = FormKind::kRegex, .texts = {"([a-z]+ )*[a-z]+"}},
        [](int i) { return i % 5 == 4 ? ' ' : 'a'; });
  check({.kind = FormKind::kGrammar, .texts = {R"(root ::= "a" root | "b")"}}, letter_a);
  check(
      {.kind = FormKind::kGrammar, .texts = {R"-(root ::= "(" root ")" | "a")-"}},
      [](int) { return '('; }, kDepth);
  check(
      {.kind = FormKind::kJson}, [](int i) { return i < 5 ? R"({"a":)"[i] : '['; }, kDepth);
  check({.kind = FormKind::kJson}, [](int i) { return i < 6 ? R"({"a":")"[i] : 'x'; });
}

TEST_CASE("what a matcher keeps does not grow with the text") {
  if (is_skipped_without_grammar()) return;
  const auto check = [](const AnswerForm& form, const std::function<char(int)>& byte_at) {
    const CompiledForm compiled = compile(form);
    TokenMatcher matcher(compiled);
    std::vector<uint32_t> mask(8);
    const int64_t before = allocated_bytes();
    for (int i = 0; i < 2000; ++i) {
      matcher.fill(mask);
      REQUIRE(matcher.accept(static_cast<TokenId>(byte_at(i))));
    }
    CAPTURE(form.texts[0]);
    CHECK(allocated_bytes() - before < 200'000);
  };
  check({.kind = FormKind::kRegex, .texts = {"[a-z]{4000,}"}}, letter_a);
  check({.kind = FormKind::kRegex, .texts = {"([a-z]+ ){4000,}"}},
        [](int i) { return i % 5 == 4 ? ' ' : 'a'; });
  check({.kind = FormKind::kJsonSchema, .texts = {R"({"type":"string","minLength":9000})"}},
        [](int i) { return i == 0 ? '"' : 'a'; });
  check({.kind = FormKind::kGrammar, .texts = {R"(root ::= root "a" | "a")"}}, letter_a);
  check(
      {.kind = FormKind::kJsonSchema, .texts = {R"({"type":"array","items":{"type":"integer"}})"}},
      [](int i) { return i == 0       ? '['
                         : i % 3 == 0 ? ','
                                      : '7'; });
}

TEST_CASE("what keeps too many ways open is given up, always at the same token") {
  if (is_skipped_without_grammar()) return;
  const CompiledForm form = compile(
      {.kind = FormKind::kGrammar, .texts = {"root ::= x x x x x x x x \"~\"\nx ::= [^~]*"}});
  const auto error_at = [&](const std::function<void(TokenMatcher&)>& between) {
    TokenMatcher matcher(form);
    std::vector<uint32_t> mask(8);
    for (int i = 0;; ++i) {
      try {
        matcher.fill(mask);
        const bool is_accepted = matcher.accept('a');
        REQUIRE(is_accepted);
      } catch (const Error& error) {
        CHECK(std::string(error.what()).find("too much memory") != std::string::npos);
        return i;
      }
      between(matcher);
    }
  };
  const int end = error_at([](TokenMatcher&) {});
  MESSAGE("given up after " << end << " bytes");
  CHECK(end > 100);
  CHECK(error_at([](TokenMatcher& matcher) { matcher = matcher.fork(); }) == end);
}
