// Time to compile forms of answers, and to make a mask of the tokens that may come next, in CPU
// time of one thread, over the vocabulary of a tokenizer. Texts are drawn from the masks.
//
//   pagedinfer_grammar_bench MODEL_DIR
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench_support.h"
#include "grammar/form_compiler.h"
#include "grammar/token_matcher.h"
#include "text/files/make_tokenizer.h"

namespace {

using namespace pagedinfer;

const std::vector<std::pair<std::string, AnswerForm>> kForms = {
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

struct Measured {
  std::vector<double> masks = {};  // seconds
  double accept = 0;               // of all tokens
};

Measured walk(const CompiledForm& form, std::mt19937_64& random) {
  Measured measured;
  std::vector<uint32_t> mask(static_cast<size_t>(form.num_words()));
  for (int text = 0; text < 20; ++text) {
    TokenMatcher matcher(form);
    for (int i = 0; i < 100; ++i) {
      measured.masks.push_back(seconds(Clock::kThread, [&] { matcher.fill(mask); }));
      std::vector<TokenId> allowed;
      for (TokenId t = 0; t < std::ssize(mask) * 32; ++t) {
        if ((mask[static_cast<size_t>(t / 32)] >> (t % 32) & 1) != 0) allowed.push_back(t);
      }
      if (allowed.empty()) break;
      const TokenId chosen = allowed[random() % allowed.size()];
      measured.accept +=
          seconds(Clock::kThread, [&] { static_cast<void>(matcher.accept(chosen)); });
    }
  }
  return measured;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 1;
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(argv[1]);
  std::vector<std::string> tokens;
  for (TokenId t = 0; t < tokenizer->vocab_size(); ++t) {
    tokens.emplace_back(tokenizer->token_bytes(t));
  }
  FormCompiler compiler([&] { return tokens; }, size_t{1} << 30);
  const double first = seconds(Clock::kThread, [&] {
    static_cast<void>(compiler.compile({.kind = FormKind::kChoices, .texts = {"a"}}));
  });
  fmt::print("{} tokens; the first form takes {:.0f} ms\n", tokens.size(), 1e3 * first);
  fmt::print("{:12} {:>10} {:>10} {:>12} {:>12} {:>12} {:>12}\n", "form", "compile ms", "KiB",
             "mask mean us", "p99 us", "max us", "accept us");
  std::mt19937_64 random(1);
  for (const auto& [name, form] : kForms) {
    std::variant<CompiledForm, RequestError> outcome = RequestError();
    const double compile =
        seconds(Clock::kThread, [&, &f = form] { outcome = compiler.compile(f); });
    const auto* const compiled = std::get_if<CompiledForm>(&outcome);
    if (compiled == nullptr) {
      fmt::print("{:12} {}\n", name, std::get<RequestError>(outcome).message);
      continue;
    }
    Measured measured = walk(*compiled, random);
    std::ranges::sort(measured.masks);
    double sum = 0;
    for (const double mask : measured.masks) sum += mask;
    const size_t count = measured.masks.size();
    fmt::print("{:12} {:10.1f} {:10} {:12.1f} {:12.1f} {:12.1f} {:12.1f}\n", name, 1e3 * compile,
               compiled->num_bytes() / 1024, 1e6 * sum / static_cast<double>(count),
               1e6 * measured.masks[count * 99 / 100], 1e6 * measured.masks.back(),
               1e6 * measured.accept / static_cast<double>(count));
  }
}
