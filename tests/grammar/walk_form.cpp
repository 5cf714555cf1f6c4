// Draws texts of a form at random, for tools/checks/check_forms.py: reads lines of JSON, {"kind",
// "text" or "texts", "whitespace", "seed", "count"}, and prints for each a line of JSON: a list of
// texts, or an object with the error. Tokens are bytes, and some words.
#include <simdjson.h>

#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "core/token_mask.h"
#include "grammar/form_compiler.h"
#include "grammar/token_matcher.h"

using namespace pagedinfer;

namespace {

constexpr int kMaxTokens = 600;

std::vector<std::string> vocabulary() {
  std::vector<std::string> tokens = {
      "\"a\"", "\"b\":", "{\"",   "\":",     "\",\"",    "],",           "null", "true", "12",
      "-3",    "0.5",    "\\n",   "\\u00e9", "\xC3\xA9", "\xE2\x82\xAC", " ",    "\n",   "\t\t",
      "ab",    "xyz",    "2024-", "\\\"",    "}}",       "\"}",          "1e5",  "00"};
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.emplace_back();
  return tokens;
}

AnswerForm form_of(simdjson::dom::element line) {
  AnswerForm form;
  const std::string_view kind = line["kind"];
  form.kind = kind == "json"      ? FormKind::kJson
              : kind == "schema"  ? FormKind::kJsonSchema
              : kind == "regex"   ? FormKind::kRegex
              : kind == "choices" ? FormKind::kChoices
                                  : FormKind::kGrammar;
  bool on = false;
  form.whitespace = line["whitespace"].get(on) == simdjson::SUCCESS && on;
  std::vector<std::string> texts;
  std::string_view text;
  if (line["text"].get(text) == simdjson::SUCCESS) texts.emplace_back(text);
  simdjson::dom::array list;
  if (line["texts"].get(list) == simdjson::SUCCESS) {
    for (const auto item : list) texts.emplace_back(std::string_view(item));
  }
  form.texts = texts;
  return form;
}

// Returns whether the walk has ended in time.
bool walk(const CompiledForm& form, const std::vector<std::string>& tokens, std::mt19937_64& random,
          std::string& text) {
  TokenMatcher matcher(form);
  std::vector<uint32_t> mask(static_cast<size_t>(form.num_words()));
  for (int i = 0; i < kMaxTokens; ++i) {
    if (matcher.is_complete() && random() % 3 == 0) return true;
    matcher.fill(mask);
    std::vector<size_t> allowed, closing;
    for (size_t t = 0; t < tokens.size(); ++t) {
      if (!is_allowed(mask, static_cast<TokenId>(t))) continue;
      allowed.push_back(t);
      const char first = tokens[t].empty() ? ' ' : tokens[t][0];
      if (first == '"' || first == '}' || first == ']') closing.push_back(t);
    }
    if (allowed.empty()) return matcher.is_complete();
    const auto& from = !closing.empty() && random() % 4 != 0 ? closing : allowed;
    const size_t chosen = from[random() % from.size()];
    if (!matcher.accept(static_cast<TokenId>(chosen))) {
      text += "<an allowed token was refused>";
      return true;
    }
    text += tokens[chosen];
  }
  return false;
}

}  // namespace

int main() {
  const std::vector<std::string> tokens = vocabulary();
  FormCompiler compiler([&] { return tokens; });
  simdjson::dom::parser parser;
  std::string line, out;
  while (std::getline(std::cin, line)) {
    const simdjson::dom::element fields = parser.parse(line);
    const auto outcome = compiler.compile(form_of(fields));
    out.clear();
    JsonWriter json(out);
    if (!outcome) {
      json.begin_object()
          .field("code", outcome.error().code.name())
          .field("message", outcome.error().message)
          .end_object();
    } else {
      json.begin_array();
      std::mt19937_64 random(static_cast<uint64_t>(int64_t(fields["seed"])));
      for (int64_t i = 0; i < int64_t(fields["count"]); ++i) {
        std::string text;
        bool has_ended = false;
        try {
          has_ended = walk(*outcome, tokens, random, text);
        } catch (const Error&) {  // there are too many ways to match it
        }
        if (has_ended) json.value(text);
      }
      json.end_array();
    }
    std::cout << out << '\n' << std::flush;
  }
}
