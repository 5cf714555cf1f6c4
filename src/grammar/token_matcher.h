#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/request.h"

namespace pagedinfer {

class CompiledForm;

// The steps of the library's parser (library_work.h) that a completion may take at once, and those
// that each token adds, up to the first number. Masks take hundreds to thousands, near the end of a
// long string of bounded length up to a million.
constexpr int64_t kMaxFormWork = 40'000'000, kFormWorkPerToken = 500'000;

// The states of the parser that a completion may keep, of some 50 bytes. Most keep some hundreds.
constexpr int64_t kMaxFormStates = 20'000;

// How far a completion has come in its form. Knows nothing of what draws tokens, and not the tokens
// that end a completion: it says where one may end. Throws Error where the library gives up, or the
// form matches the text in so many ways that it takes more steps; then it cannot be used any more.
class TokenMatcher {
 public:
  // At the beginning of a completion. REQUIRES: the form outlives it.
  explicit TokenMatcher(const CompiledForm& form);
  ~TokenMatcher();
  TokenMatcher(TokenMatcher&&) noexcept;
  TokenMatcher& operator=(TokenMatcher&&) noexcept;

  // A copy that goes its own way.
  TokenMatcher fork() const;

  // Follows a token. False if the form does not allow it; then nothing has changed.
  [[nodiscard]] bool accept(TokenId token);
  // Makes the mask (core/token_mask.h) of the tokens that may come next. REQUIRES: `mask` has
  // CompiledForm::num_words() words.
  void fill(std::span<uint32_t> mask);
  // Whether the text so far has the form.
  bool is_complete() const;

 private:
  struct Impl;
  explicit TokenMatcher(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pagedinfer
