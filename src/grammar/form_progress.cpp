#include "grammar/form_progress.h"

#include <algorithm>
#include <exception>

#include "core/token_mask.h"

namespace pagedinfer {

FormProgress::FormProgress(CompiledForm form, std::vector<TokenId> ends,
                           std::optional<TokenId> behind)
    : form_(std::move(form)), matcher_(form_), ends_(std::move(ends)), behind_(behind) {}

void FormProgress::make_mask() {
  if (!mask_.empty()) return;
  mask_.assign(static_cast<size_t>(form_.num_words()), behind_ ? ~0u : 0);
  if (behind_) {
    for (const TokenId end : ends_) set_allowed(mask_, end, false);
    may_go_on_ = true;
    return;
  }
  try {
    matcher_.fill(mask_);
    may_go_on_ = std::ranges::any_of(mask_, [](uint32_t word) { return word != 0; });
  } catch (const std::exception& error) {
    failure_ = error.what();
    std::ranges::fill(mask_, 0);
    return;
  }
  for (const TokenId end : ends_) set_allowed(mask_, end, is_complete());
}

bool FormProgress::may_go_on() {
  make_mask();
  return may_go_on_;
}

bool FormProgress::accept(TokenId token) {
  if (behind_) {
    if (token == *behind_) {
      behind_.reset();
      mask_.clear();
    }
    return true;
  }
  try {
    if (!matcher_.accept(token)) return false;
  } catch (const std::exception& error) {
    failure_ = error.what();
    return false;
  }
  mask_.clear();
  return true;
}

std::optional<FormProgress> FormProgress::followed_by(TokenId token) const {
  try {
    FormProgress next(*this, matcher_.fork());
    if (next.accept(token)) return next;
  } catch (const std::exception&) {  // the library gives up
  }
  return std::nullopt;
}

}  // namespace pagedinfer
