#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "grammar/form_compiler.h"
#include "grammar/token_matcher.h"

namespace pagedinfer {

// Fails the test if the form does not compile.
inline CompiledForm compile_form(const std::vector<std::string>& tokens, const AnswerForm& form) {
  FormCompiler compiler([&] { return tokens; });
  const Result<CompiledForm> compiled = compiler.compile(form);
  INFO((compiled ? "" : compiled.error().message));
  REQUIRE(compiled);
  return *compiled;
}

// Follows a limited number of random tokens and compares every mask with `may_follow`, which gets
// all text so far. Tokens with '"' are rarely taken if others may follow. Returns the number of
// compared bits of masks.
template <class MayFollow, class IsComplete>
int64_t compare_masks(const CompiledForm& form, const std::vector<std::string>& tokens,
                      std::mt19937& random, const MayFollow& may_follow,
                      const IsComplete& is_complete, int max_steps = 12) {
  TokenMatcher matcher(form);
  std::vector<uint32_t> mask(static_cast<size_t>(form.num_words()));
  std::string text;
  int64_t compared = 0;
  for (int step = 0; step < max_steps; ++step) {
    REQUIRE(matcher.is_complete() == is_complete(text));
    matcher.fill(mask);
    std::vector<size_t> allowed;
    for (size_t t = 0; t < tokens.size(); ++t) {
      const bool is_set = (mask[t / 32] >> (t % 32) & 1) != 0;
      INFO(text << " then " << tokens[t]);
      REQUIRE(is_set == (!tokens[t].empty() && may_follow(text + tokens[t])));
      if (is_set) allowed.push_back(t);
      ++compared;
    }
    const auto refused = random() % tokens.size();
    if (std::ranges::find(allowed, refused) == allowed.end()) {
      REQUIRE_FALSE(matcher.accept(static_cast<TokenId>(refused)));
    }
    if (allowed.empty()) break;
    size_t chosen = allowed[random() % allowed.size()];
    for (int i = 0; i < 8 && tokens[chosen].find('"') != std::string::npos; ++i) {
      chosen = allowed[random() % allowed.size()];
    }
    if (random() % 2 == 0) matcher = matcher.fork();
    REQUIRE(matcher.accept(static_cast<TokenId>(chosen)));
    text += tokens[chosen];
  }
  return compared;
}

}  // namespace pagedinfer
