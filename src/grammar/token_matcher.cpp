#include "grammar/token_matcher.h"

#include <dlpack/dlpack.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "core/token_mask.h"
#include "grammar/compiled_form_impl.h"
#include "grammar/library_work.h"

namespace pagedinfer {

namespace {

constexpr const char* kTooManySteps = "to match the text takes too many steps";

template <class F>
auto with_library(const F& f) {
  try {
    return f();
  } catch (const std::exception& error) {
    throw Error(fmt::format("the form of the answer: {}", error.what()));
  }
}

}  // namespace

struct TokenMatcher::Impl {
  xgrammar::GrammarMatcher matcher;
  int num_tokens;
  int64_t work_left = kMaxFormWork;
};

TokenMatcher::TokenMatcher(const CompiledForm& form)
    : impl_(with_library([&] {
        return std::make_unique<Impl>(
            Impl{xgrammar::GrammarMatcher(form.impl().grammar), form.impl().num_tokens});
      })) {}
TokenMatcher::TokenMatcher(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TokenMatcher::~TokenMatcher() = default;
TokenMatcher::TokenMatcher(TokenMatcher&&) noexcept = default;
TokenMatcher& TokenMatcher::operator=(TokenMatcher&&) noexcept = default;

TokenMatcher TokenMatcher::fork() const {
  return with_library([&] {
    return TokenMatcher(
        std::make_unique<Impl>(Impl{impl_->matcher.Fork(), impl_->num_tokens, impl_->work_left}));
  });
}

bool TokenMatcher::accept(TokenId token) {
  const int64_t work_left = impl_->work_left;
  const bool is_accepted = with_library([&] {
    const WorkLimit limit(impl_->work_left, kTooManySteps);
    return impl_->matcher.AcceptToken(token);
  });
  impl_->work_left =
      is_accepted ? std::min(kMaxFormWork, impl_->work_left + kFormWorkPerToken) : work_left;
  return is_accepted;
}

void TokenMatcher::fill(std::span<uint32_t> mask) {
  CHECK(std::ssize(mask) == num_mask_words(impl_->num_tokens));
  int64_t shape = std::ssize(mask);
  int64_t stride = 1;
  DLTensor tensor = {.data = mask.data(),
                     .device = {.device_type = kDLCPU, .device_id = 0},
                     .ndim = 1,
                     .dtype = {.code = kDLInt, .bits = 32, .lanes = 1},
                     .shape = &shape,
                     .strides = &stride,
                     .byte_offset = 0};
  with_library([&] {
    const WorkLimit limit(impl_->work_left, kTooManySteps);
    impl_->matcher.FillNextTokenBitmask(&tensor);
  });
  // The last word's bits beyond the vocabulary.
  if (const int rest = impl_->num_tokens % 32; rest > 0) mask.back() &= (1u << rest) - 1;
}

bool TokenMatcher::is_complete() const { return impl_->matcher.IsCompleted(); }

}  // namespace pagedinfer
