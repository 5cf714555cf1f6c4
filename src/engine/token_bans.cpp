#include "engine/token_bans.h"

#include <algorithm>
#include <iterator>

#include "ops/step_protocol.h"

namespace pagedinfer {

std::vector<TokenId> banned_tokens(const ModelSpec& spec, const SamplingParams& params,
                                   int num_generated, bool has_form) {
  std::vector<TokenId> banned = spec.suppressed;
  if (num_generated == 0) std::ranges::copy(spec.suppressed_first, std::back_inserter(banned));
  if (!has_form && num_generated < std::max(params.min_tokens, params.floor.tokens)) {
    std::ranges::copy(end_tokens(spec, params), std::back_inserter(banned));
  }
  return banned;
}

std::vector<TokenId> end_tokens(const ModelSpec& spec, const SamplingParams& params) {
  std::vector<TokenId> ends = params.stop_token_ids.copy();
  // A complete form may always end with the model's end tokens.
  if (!params.ignore_eos || !params.form.is_free()) {
    std::ranges::copy(spec.eos_tokens, std::back_inserter(ends));
  }
  return ends;
}

int num_beam_candidates(const ModelSpec& spec, const SamplingParams& params) {
  if (!params.form.is_free()) return kMaxCandidates;  // any number of its tokens may end the beam
  std::vector<TokenId> special = banned_tokens(spec, params, 0);
  std::ranges::copy(end_tokens(spec, params), std::back_inserter(special));
  std::ranges::sort(special);
  const auto num_special = std::ranges::unique(special).begin() - special.begin();
  return BeamSearch::num_candidates(params.beams.width, static_cast<int>(num_special));
}

BeamSearch::RoleOf roles_in_beam(const ModelSpec& spec, const Sequence& beam) {
  // The forced end is the only candidate. The beam then ends because of its length.
  if (ends_by_force(spec, beam, beam.num_known() + 1)) {
    return [](const Beam&, TokenId) { return TokenRole::kGoesOn; };
  }
  const SamplingParams& params = beam.request->sampling;
  const bool has_form = !params.form.is_free();  // else ends would be banned before min_tokens
  return [banned = banned_tokens(spec, params, beam.num_generated(), has_form),
          ends = end_tokens(spec, params)](const Beam&, TokenId token) {
    const auto is_in = [&](const std::vector<TokenId>& tokens) {
      return std::ranges::find(tokens, token) != tokens.end();
    };
    if (is_in(banned)) return TokenRole::kBanned;
    return is_in(ends) ? TokenRole::kEnds : TokenRole::kGoesOn;
  };
}

bool ends_by_force(const ModelSpec& spec, const Sequence& seq, int length) {
  return spec.forced_end && !seq.request->sampling.ignore_eos && length == seq.max_tokens;
}

}  // namespace pagedinfer
