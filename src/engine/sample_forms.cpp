#include "engine/sample_forms.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "core/token_mask.h"
#include "engine/token_bans.h"

namespace pagedinfer {
namespace {

// The generated tokens before the latest one.
std::span<const TokenId> before_latest(const Sequence& seq) {
  return seq.generated().first(seq.generated().size() - 1);
}

}  // namespace

FormProgress& SampleForms::of(const Sequence& seq, int sample) {
  if (seq.is_beam()) {
    if (!beams_) beams_.emplace(begin());
    return beams_->of(seq.generated());
  }
  const auto found = samples_.find(sample);
  return found != samples_.end() ? found->second : samples_.emplace(sample, begin()).first->second;
}

FormProgress SampleForms::begin() const {
  return {form_, end_tokens(spec_, request_.sampling), request_.form_behind};
}

BeamSearch::RoleOf SampleForms::roles_in_beam(const Sequence& beam) {
  BeamSearch::RoleOf roles = pagedinfer::roles_in_beam(spec_, beam);
  if (ends_by_force(spec_, beam, beam.num_known() + 1)) return roles;
  return [roles = std::move(roles), &forms = *beams_](const Beam& of, TokenId token) {
    const TokenRole role = roles(of, token);
    return role == TokenRole::kGoesOn ? forms.role_of(of.tokens, token) : role;
  };
}

std::optional<FinishReason> SampleForms::accept(int sample, TokenId token) {
  FormProgress& form = samples_.at(sample);
  if (!form.accept(token)) return FinishReason::kError;
  if (!form.is_complete() || form.may_go_on()) return std::nullopt;
  return form.failure().empty() ? FinishReason::kStop : FinishReason::kError;
}

bool SampleForms::lacks_tokens(const Sequence& beam) {
  const std::span<const TokenId> before = before_latest(beam);
  return !may_draw(beams_->of(before), before.size());
}

std::string SampleForms::why_no_token(const Sequence& seq, std::span<const TokenId> tokens) {
  FormProgress& form = beams_ ? beams_->of(tokens) : samples_.at(seq.sample);
  if (may_draw(form, tokens.size())) return "";
  if (!form.failure().empty()) return form.failure();
  return "no token that may be drawn goes on in the form of the answer";
}

// Whether a token may go on in the form, if its logit is finite.
bool SampleForms::may_draw(FormProgress& form, size_t num_generated) const {
  form.make_mask();
  const std::span<const uint32_t> mask = form.mask();
  const SamplingParams& params = request_.sampling;
  const std::vector<TokenId> banned =
      banned_tokens(spec_, params, static_cast<int>(num_generated), form.is_complete());
  const auto contains = [](const auto& tokens, TokenId token) {
    return std::ranges::find(tokens, token) != tokens.end();
  };
  const auto can_be_drawn = [&](TokenId token) {
    return is_allowed(mask, token) && !contains(banned, token) &&
           (params.allowed_token_ids.empty() || contains(params.allowed_token_ids, token));
  };
  for (TokenId token = 0; token < spec_.vocab; ++token) {
    if (form.failure().empty() && can_be_drawn(token)) return true;
  }
  return false;
}

void SampleForms::end(int sample) {
  samples_.erase(sample);
  beams_.reset();
}

}  // namespace pagedinfer
