// Time to compile forms of answers, and to make a mask of the tokens that may come next, in CPU
// time of one thread, over the vocabulary of a tokenizer. Texts are drawn from the masks.
//
//   pagedinfer_grammar_bench MODEL_DIR [--json]
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench_support.h"
#include "core/error.h"
#include "core/token_mask.h"
#include "grammar/form_compiler.h"
#include "grammar/token_matcher.h"
#include "text/files/make_tokenizer.h"

namespace {

using namespace pagedinfer;

using Forms = std::vector<std::pair<std::string, AnswerForm>>;

const Forms kForms = {
    {"any object", {.kind = FormKind::kJson}},
    {"person",
     {.kind = FormKind::kJsonSchema,
      .texts = {R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 40},
          "age": {"type": "integer", "minimum": 0, "maximum": 150}, "tags": {"type": "array",
          "items": {"enum": ["a", "b", "c"]}, "maxItems": 5}, "home": {"$ref": "#/$defs/place"},
          "work": {"$ref": "#/$defs/place"}}, "required": ["name", "age", "home"], "$defs":
          {"place": {"type": "object", "properties": {"street": {"type": "string"}, "zip": {"type":
          "string", "pattern": "^[0-9]{5}$"}}, "required": ["street", "zip"]}}})"}}},
    {"date", {.kind = FormKind::kRegex, .texts = {R"(\d{4}-(0[1-9]|1[0-2])-\d{2})"}}},
    {"words", {.kind = FormKind::kRegex, .texts = {R"(([a-z]+ )*[a-z]+\.)"}}},
    {"choices", {.kind = FormKind::kChoices, .texts = {"positive", "negative", "neutral"}}},
    {"sums",
     {.kind = FormKind::kGrammar,
      .texts = {"root ::= term ((\"+\" | \"-\") term)*\nterm ::= [0-9]+ | \"(\" root \")\"\n"}}}};

std::string repeated(int count, const std::function<std::string(int)>& part) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    if (i > 0) all += ',';
    all += part(i);
  }
  return all;
}

AnswerForm schema(const std::string& text) {
  return {.kind = FormKind::kJsonSchema, .texts = std::vector<std::string>{text}};
}

AnswerForm regex(const std::string& text) {
  return {.kind = FormKind::kRegex, .texts = std::vector<std::string>{text}};
}

AnswerForm grammar(const std::string& text) {
  return {.kind = FormKind::kGrammar, .texts = std::vector<std::string>{text}};
}

// Forms near the limits, and such as are hard for parsers.
Forms hostile_forms() {
  std::vector<std::string> choices;
  for (int i = 0; i < 6000; ++i) choices.push_back(fmt::format("choice {:03x}", i));
  std::string groups, classes;
  for (int i = 0; i < 30; ++i) groups = fmt::format("({}|b)*a?", groups.empty() ? "a" : groups);
  for (int i = 0; i < 700; ++i) classes += fmt::format("[\\u{:04x}-z]", 0x21 + i % 80);
  std::string chain = R"({"type":"integer"})";
  for (int i = 0; i < 15; ++i) {
    chain = fmt::format(R"({{"anyOf":[{{"type":"array","items":{0}}},{{"type":"null"}}]}})", chain);
  }
  return {{"6,000 choices", {.kind = FormKind::kChoices, .texts = choices}},
          {"256 optional keys",
           schema(fmt::format(
               R"({{"properties":{{{}}}}})",
               repeated(256,
                        [](int i) { return fmt::format(R"("key{}":{{"type":"integer"}})", i); })))},
          {"4,000 constants",
           schema(fmt::format(R"({{"enum":[{}]}})",
                              repeated(4000, [](int i) { return fmt::format("{}", i * 7919); })))},
          {"10,000 characters", schema(R"({"type":"string","minLength":9999,"maxLength":10000})")},
          {"10,000 of 10,000",
           schema(R"({"type":"array","minItems":10000,"items":{"type":"array","minItems":10000,)"
                  R"("items":{"type":"integer"}}})")},
          {"nested any of", schema(chain)},
          {".{4096}", regex(".{4096}")},
          {"counts in counts", regex("((((a?b){8}){8}){8}){8}")},
          {"groups of 30 levels", regex(groups)},
          {"700 classes", regex(classes)},
          {"left recursion", grammar("root ::= root \"a\" | \"a\"")},
          {"ambiguous", grammar("root ::= root root | \"a\" | \"\"")},
          {"empty in a circle", grammar("root ::= a*\na ::= b*\nb ::= root | \"x\"?")}};
}

struct Measured {
  std::vector<double> masks = {};  // seconds
  double accept = 0;               // of all tokens
  int given_up = 0;                // texts that match in too many ways
};

void walk_text(const CompiledForm& form, std::mt19937_64& random, Measured& measured) {
  std::vector<uint32_t> mask(static_cast<size_t>(form.num_words()));
  TokenMatcher matcher(form);
  for (int i = 0; i < 100; ++i) {
    measured.masks.push_back(seconds(Clock::kThread, [&] { matcher.fill(mask); }));
    std::vector<TokenId> allowed;
    for (TokenId t = 0; t < std::ssize(mask) * 32; ++t) {
      if (is_allowed(mask, t)) allowed.push_back(t);
    }
    if (allowed.empty()) break;
    const TokenId chosen = allowed[random() % allowed.size()];
    measured.accept += seconds(Clock::kThread, [&] { static_cast<void>(matcher.accept(chosen)); });
  }
}

Measured walk(const CompiledForm& form, std::mt19937_64& random) {
  Measured measured;
  for (int text = 0; text < 10; ++text) {
    try {
      walk_text(form, random, measured);
    } catch (const Error&) {
      ++measured.given_up;
    }
  }
  return measured;
}

void measure(FormCompiler& compiler, const std::string& name, const AnswerForm& form, bool as_json,
             std::mt19937_64& random) {
  Result<CompiledForm> compiled = RequestError();
  const double compile = seconds(Clock::kThread, [&] { compiled = compiler.compile(form); });
  if (!compiled) {
    const std::string& message = compiled.error().message;
    if (!as_json) fmt::print("{:20} {:10.1f} refused: {}\n", name, 1e3 * compile, message);
    return;
  }
  Measured measured = walk(*compiled, random);
  if (measured.masks.empty()) measured.masks.push_back(0);
  std::ranges::sort(measured.masks);
  double sum = 0;
  for (const double mask : measured.masks) sum += mask;
  const size_t count = measured.masks.size();
  const double mean = 1e6 * sum / static_cast<double>(count);
  const double p99 = 1e6 * measured.masks[count * 99 / 100], max = 1e6 * measured.masks.back();
  const double accept = 1e6 * measured.accept / static_cast<double>(count);
  const int64_t kib = compiled->num_bytes() / 1024;
  fmt::print(
      fmt::runtime(as_json ? R"({{"form":"{}","compile_ms":{:.1f},"kib":{},"mask_us":{:.1f},)"
                             R"("mask_p99_us":{:.1f},"mask_max_us":{:.1f},"accept_us":{:.1f},)"
                             R"("given_up":{}}})"
                             "\n"
                           : "{:20} {:10.1f} {:10} {:12.1f} {:12.1f} {:12.1f} {:12.1f} {:9}\n"),
      name, 1e3 * compile, kib, mean, p99, max, accept, measured.given_up);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 1;
  const bool as_json = argc > 2 && std::string_view(argv[2]) == "--json";
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(argv[1]);
  std::vector<std::string> tokens;
  for (TokenId t = 0; t < tokenizer->vocab_size(); ++t) {
    tokens.emplace_back(tokenizer->token_bytes(t));
  }
  FormCompiler compiler([&] { return tokens; });
  const double first = seconds(Clock::kThread, [&] {
    static_cast<void>(compiler.compile({.kind = FormKind::kChoices, .texts = {"a"}}));
  });
  if (!as_json) {
    fmt::print("{} tokens; the first form takes {:.0f} ms\n", tokens.size(), 1e3 * first);
    fmt::print("{:20} {:>10} {:>10} {:>12} {:>12} {:>12} {:>12} {:>9}\n", "form", "compile ms",
               "KiB", "mask mean us", "p99 us", "max us", "accept us", "given up");
  }
  std::mt19937_64 random(1);
  for (const Forms& forms : {kForms, hostile_forms()}) {
    for (const auto& [name, form] : forms) measure(compiler, name, form, as_json, random);
  }
}
