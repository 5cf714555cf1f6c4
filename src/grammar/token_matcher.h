#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/request.h"

namespace pagedinfer {

class CompiledForm;

// How far a completion has come in its form. Knows nothing of what draws tokens, and not the tokens
// that end a completion: it says where one may end. May throw Error where the library gives up.
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
