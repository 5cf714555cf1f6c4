// Masks against a matcher of this file's own, which tries every token.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "grammar/form_compiler.h"
#include "grammar/token_matcher.h"
#include "tests/support/grammar_support.h"
#include "tests/support/mask_comparison.h"
#include "tests/support/random_form.h"

using namespace pagedinfer;

namespace {

std::vector<std::string> random_tokens(std::mt19937& random) {
  std::set<std::string> all;
  const auto count = 5 + random() % 40;
  while (all.size() < count) {
    std::string token;
    for (auto length = 1 + random() % 4; length > 0; --length) {
      token += static_cast<char>('a' + random() % 5);
    }
    all.insert(token);
  }
  std::vector<std::string> tokens(all.begin(), all.end());
  tokens.emplace_back();  // a token that is no text
  std::shuffle(tokens.begin(), tokens.end(), random);
  return tokens;
}

}  // namespace

TEST_CASE("the mask of a regular expression allows the tokens that a text can go on with") {
  if (is_skipped_without_grammar()) return;
  std::mt19937 random(1);
  int64_t compared = 0;
  for (int i = 0; i < 150; ++i) {
    const RandomForm random_one = random_form(random);
    CAPTURE(random_one.form.texts[0]);
    const std::vector<std::string> tokens = random_tokens(random);
    const CompiledForm form = compile_form(tokens, random_one.form);
    for (int walk = 0; walk < 3; ++walk) {
      compared += compare_masks(
          form, tokens, random, [&](const std::string& all) { return random_one.may_begin(all); },
          [&](const std::string& all) { return random_one.is_whole(all); });
    }
  }
  CHECK(compared > 10000);
}

TEST_CASE("the mask of a pattern allows the tokens that a string can go on with") {
  if (is_skipped_without_grammar()) return;
  std::mt19937 random(4);
  for (int i = 0; i < 150; ++i) {
    const RandomForm random_one = random_form(random);
    const std::string& pattern = random_one.form.texts[0];
    CAPTURE(pattern);
    std::vector<std::string> tokens = random_tokens(random);
    for (const char* const quoted : {"\"", "\"a", "b\"", "\"\""}) tokens.emplace_back(quoted);
    const CompiledForm form = compile_form(
        tokens, {.kind = FormKind::kJsonSchema,
                 .texts = {fmt::format(R"({{"type":"string","pattern":"^({})$"}})", pattern)}});
    const auto is_whole = [&](const std::string& all) {
      return all.size() > 1 && all.back() == '"' &&
             random_one.is_whole(all.substr(1, all.size() - 2));
    };
    const auto may_follow = [&](const std::string& all) {
      const size_t end = all.find('"', 1);
      if (all[0] != '"') return false;
      if (end == all.npos) return random_one.may_begin(all.substr(1));
      return end + 1 == all.size() && is_whole(all);
    };
    for (int walk = 0; walk < 3; ++walk) compare_masks(form, tokens, random, may_follow, is_whole);
  }
}

TEST_CASE("an expression of repetitions and alternatives matches as it says") {
  if (is_skipped_without_grammar()) return;
  struct Case {
    const char* pattern;
    std::vector<std::string> match, do_not;
  };
  const std::vector<std::string> bytes = byte_tokens();
  for (const Case& one :
       std::vector<Case>{{"(a+b)?", {"", "ab", "aab"}, {"a", "aa", "abb"}},
                         {"(a+b)??c", {"c", "abc"}, {"ac", "ab"}},
                         {"(-[0-9]+)?", {"", "-1", "-12"}, {"1", "12", "-"}},
                         {"x([a-z]{3,6})?y", {"xy", "xaaay"}, {"xay", "xaay"}},
                         {"(a{3,6})?", {"", "aaa"}, {"a", "aa"}},
                         {"((a+b)+)?c", {"c", "abaabc"}, {"ac", "abac"}},
                         {"(a(bc)?){2,}", {"aa", "abca", "aaabc"}, {"a", "abc", "aabcbc", "abcbc"}},
                         {"(ab*){2,}", {"aa", "abbab"}, {"a", "abb"}},
                         {"(a?b){3,}", {"bbb", "abbabb"}, {"bb", "aab"}},
                         {"(a|bc+){0,}d", {"d", "abccad"}, {"abd", "bcbd"}},
                         {"(ab?){1,}", {"a", "aab"}, {"", "abb"}},
                         {"(a{2,}b){2}", {"aabaab", "aaabaaab"}, {"abaab", "aabab", "aaaab"}},
                         {"((ab){2,}c){2,3}", {"ababcababc"}, {"abcababc", "ababcabc"}},
                         {"((a|bc){3,})+", {"aaa", "abca", "aaaaaa"}, {"", "a", "aa", "abc"}},
                         {"((1){1,3}|(9|1))|[a-c]", {"111", "9", "b"}, {"b1", "91", "1111"}}}) {
    CAPTURE(std::string(one.pattern));
    for (const bool is_pattern : {true, false}) {
      CAPTURE(is_pattern);
      const std::string pattern =
          fmt::format(R"({{"type":"string","pattern":"^({})$"}})", one.pattern);
      const CompiledForm form = compile_form(
          bytes, is_pattern ? AnswerForm{.kind = FormKind::kJsonSchema, .texts = {pattern}}
                            : AnswerForm{.kind = FormKind::kRegex, .texts = {one.pattern}});
      const auto matches = [&](const std::string& text) {
        TokenMatcher matcher(form);
        for (const char c : is_pattern ? '"' + text + '"' : text) {
          if (!matcher.accept(static_cast<unsigned char>(c))) return false;
        }
        return matcher.is_complete();
      };
      for (const std::string& text : one.match) CHECK_MESSAGE(matches(text), text);
      for (const std::string& text : one.do_not) CHECK_MESSAGE(!matches(text), text);
    }
  }
}

TEST_CASE("the mask of a schema allows the tokens that a text can go on with") {
  if (is_skipped_without_grammar()) return;
  // All texts of the schema.
  const std::string schema = R"({"properties": {"a": {"enum": ["x", "ax", 1, 12]}, "title":
      {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}, "c": {"const": null}},
      "required": ["title"]})";
  std::vector<std::string> texts;
  for (const char* const a : {"", R"("a":"x",)", R"("a":"ax",)", R"("a":1,)", R"("a":12,)"}) {
    for (const char* const list : {"[]", "[true]", "[false]", "[true,true]", "[true,false]",
                                   "[false,true]", "[false,false]"}) {
      for (const char* const c : {"", R"(,"c":null)"}) {
        texts.push_back(fmt::format(R"({{{}"title":{}{}}})", a, list, c));
      }
    }
  }
  std::mt19937 random(2);
  for (int i = 0; i < 40; ++i) {
    // Pieces of the texts.
    std::set<std::string> all = {"{\"", "[]"};
    for (char c = ' '; c < 127; ++c) all.insert(std::string(1, c));
    for (int piece = 0; piece < 60; ++piece) {
      const std::string& text = texts[random() % texts.size()];
      all.insert(text.substr(random() % text.size(), 1 + random() % 9));
    }
    const std::vector<std::string> tokens(all.begin(), all.end());
    const CompiledForm form =
        compile_form(tokens, {.kind = FormKind::kJsonSchema, .texts = {schema}});
    compare_masks(
        form, tokens, random,
        [&](const std::string& text) {
          return std::ranges::any_of(
              texts, [&](const std::string& whole) { return whole.starts_with(text); });
        },
        [&](const std::string& text) { return std::ranges::find(texts, text) != texts.end(); });
  }
}

TEST_CASE("a refused token does not take those with it that have it inside") {
  if (is_skipped_without_grammar()) return;
  const std::vector<std::string> tokens = {"ab", "cab"};
  const CompiledForm form =
      compile_form(tokens, {.kind = FormKind::kChoices, .texts = {"ax", "cab"}});
  TokenMatcher matcher(form);
  std::vector<uint32_t> mask(1);
  matcher.fill(mask);
  CHECK(mask[0] == 2);
}

TEST_CASE("a token that is no text is never allowed, not even behind the whole form") {
  if (is_skipped_without_grammar()) return;
  const std::vector<std::string> tokens = {"a", "", "b"};
  const CompiledForm form = compile_form(tokens, {.kind = FormKind::kRegex, .texts = {"a*"}});
  TokenMatcher matcher(form);
  std::vector<uint32_t> mask(1);
  for (int i = 0; i < 3; ++i) {
    CHECK(matcher.is_complete());
    matcher.fill(mask);
    CHECK(mask[0] == 1);
    CHECK_FALSE(matcher.accept(1));
    CHECK(matcher.accept(0));
  }
}

TEST_CASE("a character is allowed in its shortest encoding only, and no surrogate is") {
  if (is_skipped_without_grammar()) return;
  const std::vector<std::string> bytes = byte_tokens();
  const AnswerForm forms[] = {
      {.kind = FormKind::kJsonSchema, .texts = {R"({"type": "string", "maxLength": 1})"}},
      {.kind = FormKind::kJsonSchema, .texts = {R"({"type": "string", "pattern": "[^a]"})"}},
      {.kind = FormKind::kRegex, .texts = {R"("[^a]")"}},
      {.kind = FormKind::kGrammar, .texts = {R"(root ::= "\"" [^a] "\"")"}}};
  for (const AnswerForm& answer : forms) {
    const CompiledForm form = compile_form(bytes, answer);
    for (const auto& [first, second, allowed] :
         {std::tuple(0xC0, 0x80, false), std::tuple(0xE0, 0x80, false),
          std::tuple(0xE0, 0xA0, true), std::tuple(0xED, 0xA0, false),
          std::tuple(0xF0, 0x80, false), std::tuple(0xF0, 0x90, true),
          std::tuple(0xF4, 0x90, false)}) {
      CAPTURE(first);
      TokenMatcher matcher(form);
      REQUIRE(matcher.accept('"'));
      CHECK((matcher.accept(first) && matcher.accept(second)) == allowed);
    }
  }
}

TEST_CASE("a digit may follow a character beyond ASCII") {
  if (is_skipped_without_grammar()) return;
  const std::vector<std::string> tokens = {"é", "a", "1", "\x01", "\"", "{", "}", ":"};
  const auto is_whole = [&](const AnswerForm& answer, const std::vector<TokenId>& text) {
    TokenMatcher matcher(compile_form(tokens, answer));
    for (const TokenId token : text) {
      if (!matcher.accept(token)) return false;
    }
    return matcher.is_complete();
  };
  CHECK(is_whole({.kind = FormKind::kRegex, .texts = {"éa1"}}, {0, 1, 2}));
  for (const TokenId token : {0, 1, 2, 3}) {
    CHECK(is_whole({.kind = FormKind::kRegex, .texts = {"[éa\\x011]"}}, {token}));
    CHECK(is_whole({.kind = FormKind::kGrammar, .texts = {"root ::= [éa\\u00011]"}}, {token}));
  }
  CHECK(is_whole({.kind = FormKind::kChoices,
                  .texts = {"\x01"
                            "1",
                            "éa"}},
                 {3, 2}));
  // Rules are printed for long strings.
  CHECK(is_whole({.kind = FormKind::kJsonSchema,
                  .texts = {R"({"properties":{"éa":{"type":"string","maxLength":1000}},)"
                            R"("required":["éa"],"type":"object"})"}},
                 {5, 4, 0, 1, 4, 7, 4, 1, 4, 6}));
}

TEST_CASE("a call is one of the functions with arguments that its own schema allows") {
  if (is_skipped_without_grammar()) return;
  const std::vector<std::string> bytes = byte_tokens();
  const auto schema = [](const std::string& type) {  // both define "T"
    return fmt::format(
        R"({{"type":"object","properties":{{"x":{{"$ref":"#/$defs/T"}}}},"required":["x"],)"
        R"("$defs":{{"T":{{"type":"{}"}}}}}})",
        type);
  };
  const CompiledForm form =
      compile_form(bytes, {.kind = FormKind::kCall,
                           .texts = {"is \"it\"", schema("boolean"), "nil\n", schema("null")}});
  const auto is_call = [&](std::string_view text) {
    TokenMatcher matcher(form);
    for (const char c : text) {
      if (!matcher.accept(static_cast<unsigned char>(c))) return false;
    }
    return matcher.is_complete();
  };
  CHECK(is_call(R"({"name":"is \"it\"","arguments":{"x":true}})"));
  CHECK(is_call(R"({"name":"nil\n","arguments":{"x":null}})"));
  for (const char* text :
       {R"({"name":"nil\n","arguments":{"x":true}})",
        R"({"name":"is \"it\"","arguments":{"x":null}})", R"({"name":"nil\n","arguments":{}})",
        R"({"name":"nil\n"})", R"({"name":"nil\n","arguments":)",
        R"([{"name":"nil\n","arguments":{"x":null}}])",
        R"({"name":"nil\n","arguments":{"x":null}}})"}) {
    CAPTURE(text);
    CHECK_FALSE(is_call(text));
  }
}

TEST_CASE("masks within strings of bounded length allow what is short enough, and no more") {
  if (is_skipped_without_grammar()) return;
  // Among the tokens are the bytes of one character, alone.
  const std::vector<std::string> tokens = {
      "a", "bc",     "def",    "ghij", "\"", "k\"", "\"\"", "\xc3\xa9", "\xc3", "\xa9",
      "",  "lm\xc3", "\xa9no", "\n",   "\\", "p\\", ",",    "qrstuvwx", "y\",", "\xc3\xa9\xc3\xa9"};
  std::mt19937 random(3);
  for (const auto& [min, max] : std::vector<std::pair<int, int>>{{0, 3},
                                                                 {0, 127},
                                                                 {0, 128},
                                                                 {0, 129},
                                                                 {1, 129},
                                                                 {127, 140},
                                                                 {128, 129},
                                                                 {129, 135},
                                                                 {130, 130},
                                                                 {0, 300},
                                                                 {200, 260}}) {
    const CompiledForm form = compile_form(
        tokens,
        {.kind = FormKind::kJsonSchema,
         .texts = {fmt::format(R"({{"type":"string","minLength":{},"maxLength":{}}})", min, max)}});
    // Whether a text can become a string of this length.
    const auto may_follow = [&](const std::string& text) {
      if (text[0] != '"') return false;
      int count = 0;
      bool is_within = false;  // a character
      for (size_t i = 1; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        if (is_within != (byte == 0xa9)) return false;
        is_within = byte == 0xc3;
        if (byte == '"') return i + 1 == text.size() && count >= min;
        if (byte < 0x20 || byte == '\\') return false;
        if (byte != 0xa9 && ++count > max) return false;
      }
      return true;
    };
    const auto is_whole = [](const std::string& text) {
      return text.size() > 1 && text.back() == '"';
    };
    for (int round = 0; round < 6; ++round) {
      INFO(min << " to " << max);
      compare_masks(form, tokens, random, may_follow, is_whole, max + 3);
    }
  }
}

TEST_CASE("masks behind long texts are those of nested brackets, however deep") {
  if (is_skipped_without_grammar()) return;
  const std::vector<std::string> tokens = {"(",  ")",  "[",   "]",   "()",  "([",   "])",
                                           "))", ")[", "[()", ")))", "]]]", "[[[[", "a"};
  const CompiledForm form = compile_form(
      tokens, {.kind = FormKind::kGrammar,
               .texts = {"root ::= s\ns ::= (\"(\" s \")\" | \"[\" s \"]\" | \"a\")*"}});
  // The brackets that are open; nullopt: one that was closed was not.
  const auto open_in = [](const std::string& text) -> std::optional<std::string> {
    std::string open;
    for (const char c : text) {
      if (c == 'a') continue;
      if (c == '(' || c == '[') {
        open += c;
      } else if (open.empty() || open.back() != (c == ')' ? '(' : '[')) {
        return std::nullopt;
      } else {
        open.pop_back();
      }
    }
    return open;
  };
  std::mt19937 random(5);
  for (int round = 0; round < 4; ++round) {
    compare_masks(
        form, tokens, random, [&](const std::string& text) { return open_in(text).has_value(); },
        [&](const std::string& text) { return open_in(text).value().empty(); }, 500);
  }
}
