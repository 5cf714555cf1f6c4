#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/request.h"
#include "grammar/compiled_form.h"
#include "grammar/token_matcher.h"

namespace pagedinfer {

// How far a sample has come in the form that its answer must have, and the mask of its next token.
// A function of the form and the sample's tokens. Knows nothing of steps and logits.
class FormProgress {
 public:
  // `ends` are the tokens that may end the answer once it has the form. The form begins behind the
  // first token `behind`, if there is one: no end may come before it, and all else may.
  FormProgress(CompiledForm form, std::vector<TokenId> ends,
               std::optional<TokenId> behind = std::nullopt);

  // Makes mask(), unless it is made already. Does not throw. Those of several samples may be made
  // by several threads at once.
  void make_mask();
  // The tokens that may come next, as SampleRow::mask. REQUIRES: it was made since accept().
  std::span<const uint32_t> mask() const { return mask_; }

  // Whether the text so far has the form, and whether more text may follow it in the form.
  bool is_complete() const { return !behind_ && matcher_.is_complete(); }
  bool may_go_on();

  // Follows a token. False if the form does not allow it.
  [[nodiscard]] bool accept(TokenId token);
  // A copy that has followed a token; nullopt if the form does not allow it.
  std::optional<FormProgress> followed_by(TokenId token) const;

  // Why no mask could be made; "" if none has failed. A mask that failed allows no token.
  const std::string& failure() const { return failure_; }

 private:
  FormProgress(const FormProgress& other, TokenMatcher matcher)
      : form_(other.form_),
        matcher_(std::move(matcher)),
        ends_(other.ends_),
        behind_(other.behind_) {}

  CompiledForm form_;
  TokenMatcher matcher_;
  std::vector<TokenId> ends_;
  std::optional<TokenId> behind_;    // until it has come
  std::vector<uint32_t> mask_ = {};  // empty: not made yet
  bool may_go_on_ = false;           // of the latest mask
  std::string failure_ = {};
};

}  // namespace pagedinfer
