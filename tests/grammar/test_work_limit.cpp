// The limit on what it may take to match a text.
#include <doctest/doctest.h>

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
  FormCompiler compiler(byte_tokens, size_t{1} << 24);
  return std::get<CompiledForm>(compiler.compile(form));
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
      CHECK(std::string(error.what()).find("too many steps") != std::string::npos);
      return i;
    }
    between(matcher);
  }
  return length;
}

char letter_a(int) { return 'a'; }

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
            if (random() % 2 == 0) CHECK_FALSE(matcher.accept('z'));
          }) == end);
  }
}

TEST_CASE("what matches in one way is not given up, however long it is") {
  if (is_skipped_without_grammar()) return;
  const auto check = [](const AnswerForm& form, const std::function<char(int)>& byte_at) {
    constexpr int kLength = 4000;
    INFO(std::string(form.texts.empty() ? "JSON" : form.texts[0]));
    CHECK(matched_bytes(TokenMatcher(compile(form)), kLength, byte_at) == kLength);
  };
  check({.kind = FormKind::kRegex, .texts = {"([a-z]+ )*[a-z]+"}},
        [](int i) { return i % 5 == 4 ? ' ' : 'a'; });
  check({.kind = FormKind::kGrammar, .texts = {R"(root ::= "a" root | "b")"}}, letter_a);
  check({.kind = FormKind::kGrammar, .texts = {R"-(root ::= "(" root ")" | "a")-"}},
        [](int) { return '('; });
  check({.kind = FormKind::kJson}, [](int i) { return i < 5 ? R"({"a":)"[i] : '['; });
  check({.kind = FormKind::kJson}, [](int i) { return i < 6 ? R"({"a":")"[i] : 'x'; });
}
