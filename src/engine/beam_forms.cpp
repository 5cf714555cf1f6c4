#include "engine/beam_forms.h"

#include <optional>
#include <utility>

#include "core/check.h"

namespace pagedinfer {

FormProgress& BeamForms::of(std::span<const TokenId> beam) {
  const std::vector<TokenId> tokens(beam.begin(), beam.end());
  if (!now_.contains(tokens)) now_ = std::exchange(next_, {});
  const auto found = now_.find(tokens);
  CHECK(found != now_.end());
  return found->second;
}

TokenRole BeamForms::role_of(std::span<const TokenId> beam, TokenId token) {
  std::optional<FormProgress> progress = of(beam).followed_by(token);
  if (!progress) return TokenRole::kBanned;
  if (progress->is_complete() && !progress->may_go_on()) return TokenRole::kEnds;
  std::vector<TokenId> tokens(beam.begin(), beam.end());
  tokens.push_back(token);
  next_.insert_or_assign(std::move(tokens), *std::move(progress));
  return TokenRole::kGoesOn;
}

}  // namespace pagedinfer
