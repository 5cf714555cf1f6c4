#include "grammar/form_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/json.h"
#include "grammar/regex_check.h"

namespace pagedinfer {

namespace {

RequestError invalid(std::string message) { return {"invalid_form", std::move(message)}; }

// Appends a text to rules.
void append_literal(std::string& rules, std::string_view text) {
  rules += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20) {
      rules += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      rules += c;
    }
  }
  rules += '"';
}

Result<CheckedForm> check_choices(const AnswerForm& form) {
  if (form.texts.empty()) return invalid("the list of choices is empty");
  size_t num_bytes = 0;
  std::string rules = "root ::= ";
  for (const std::string& choice : form.texts) {
    if (choice.empty()) return invalid("a choice is empty");
    num_bytes += choice.size();
    if (num_bytes > kMaxChoiceBytes) {
      return invalid(fmt::format("the choices are longer than {} bytes", kMaxChoiceBytes));
    }
    if (choice.find('\0') != choice.npos) return invalid("a choice has a NUL character");
    if (rules.back() == '"') rules += " | ";
    append_literal(rules, choice);
  }
  return CheckedForm{.rules = std::move(rules)};
}

// `texts` are names and schemas in turn.
Result<CheckedForm> check_calls(const SharedList<std::string>& texts) {
  CheckedForm form;
  size_t num_bytes = 0;
  for (size_t i = 0; i + 1 < texts.size(); i += 2) {
    num_bytes += texts[i].size() + texts[i + 1].size();
    if (num_bytes > kMaxCallBytes) {
      return invalid(fmt::format("the functions of tools are longer than {} bytes", kMaxCallBytes));
    }
    std::string name, before = "root ::= ";
    append_json_string(name, texts[i]);
    append_literal(before, fmt::format(R"({{"name":{},"arguments":)", name));
    Result<RewrittenSchema> schema = rewrite_schema(texts[i + 1]);
    if (!schema) {
      return {schema.error().code,
              fmt::format("tools[{}].function.parameters: {}", i / 2, schema.error().message)};
    }
    form.calls.push_back({std::move(before), *std::move(schema)});
  }
  return form;
}

// The library's notation has more than rules: names with brackets behind them stand for tokens,
// text that is free up to a mark and the like.
constexpr std::array<std::string_view, 6> kMacros = {"ExcludeToken", "Regex", "Substring",
                                                     "TagDispatch",  "Token", "TokenTagDispatch"};

bool is_name_letter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
         c == '-' || c == '.';
}

// Whether text begins with an escape of a number that is no character.
bool is_bad_escape(std::string_view text, bool is_quoted) {
  if (text.size() < 2 || (text[1] != 'x' && text[1] != 'u' && text[1] != 'U')) return false;
  const std::string_view digits = text.substr(2, text[1] == 'u'   ? 4
                                                 : text[1] == 'U' ? 8
                                                                  : text.npos);
  uint32_t code = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  // Classes may name surrogates, which they never match.
  return read.ec == std::errc::result_out_of_range || code > 0x10FFFF ||
         (is_quoted && 0xD800 <= code && code <= 0xDFFF);
}

// What the library would nest or repeat too deep, and what is not only rules.
Result<CheckedForm> check_grammar(std::string_view rules) {
  if (rules.size() > kMaxGrammarBytes) {
    return invalid(fmt::format("the grammar is longer than {} bytes", kMaxGrammarBytes));
  }
  int depth = 0;
  for (size_t i = 0; i < rules.size(); ++i) {
    const char c = rules[i];
    if (c == '\0') return invalid("the grammar has a NUL character");
    if (c == '"' || c == '[') {
      const char end = c == '"' ? '"' : ']';
      for (++i; i < rules.size() && rules[i] != end; ++i) {
        if (rules[i] != '\\') continue;
        if (is_bad_escape(rules.substr(i), end == '"')) {
          return invalid(fmt::format("the grammar: {} is no character", rules.substr(i, 10)));
        }
        ++i;
      }
    } else if (is_name_letter(c)) {
      const size_t begin = i;
      while (i + 1 < rules.size() && is_name_letter(rules[i + 1])) ++i;
      const std::string_view name = rules.substr(begin, i + 1 - begin);
      if (std::ranges::find(kMacros, name) != kMacros.end()) {
        return invalid(fmt::format("the grammar: {} is not supported", name));
      }
      if (i + 1 < rules.size() && rules[i + 1] == '[') {
        const size_t end = rules.find(']', i);
        const size_t next = end == rules.npos ? end : rules.find_first_not_of(" \t\r\n", end + 1);
        if (next != rules.npos && rules.substr(next).starts_with("::=")) {
          return invalid("the grammar: attributes of rules are not supported");
        }
      }
    } else if (c == '#') {
      i = std::min(rules.find('\n', i), rules.size());
    } else if (c == '(' && ++depth > kMaxGrammarDepth) {
      return invalid(fmt::format("the grammar is nested deeper than {} levels", kMaxGrammarDepth));
    } else if (c == ')') {
      --depth;
    } else if (c == '{') {
      int64_t count = 0;
      for (++i; i < rules.size() && rules[i] != '}'; ++i) {
        const bool is_digit = rules[i] >= '0' && rules[i] <= '9';
        count =
            is_digit ? std::min<int64_t>(count * 10 + (rules[i] - '0'), kMaxRepetitions + 1) : 0;
        if (count > kMaxRepetitions) {
          return invalid(fmt::format("the grammar repeats more than {} times", kMaxRepetitions));
        }
      }
    }
  }
  return CheckedForm{.rules = std::string(rules)};
}

Result<CheckedForm> check_schema(std::string_view schema) {
  Result<RewrittenSchema> rewritten = rewrite_schema(schema);
  if (!rewritten) return std::move(rewritten.error());
  return CheckedForm{.schema = *std::move(rewritten)};
}

Result<CheckedForm> check_regex(std::string_view regex) {
  const Result<std::string> rule = rewrite_regex(regex, RegexUse::kRule);
  if (!rule) return invalid(fmt::format("the regular expression: {}", rule.error().message));
  return CheckedForm{.rules = fmt::format("root ::= {}", *rule)};
}

}  // namespace

Result<CheckedForm> check_form(const AnswerForm& form) {
  switch (form.kind) {
    case FormKind::kFree: break;
    case FormKind::kJson: return check_schema(R"({"type": "object"})");
    case FormKind::kJsonSchema: return check_schema(form.texts[0]);
    case FormKind::kCall: return check_calls(form.texts);
    case FormKind::kChoices: return check_choices(form);
    case FormKind::kGrammar: return check_grammar(form.texts[0]);
    case FormKind::kRegex: return check_regex(form.texts[0]);
  }
  return CheckedForm();
}

}  // namespace pagedinfer
