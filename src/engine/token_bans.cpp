#include "engine/token_bans.h"

#include <algorithm>

namespace pagedinfer {

std::vector<TokenId> banned_tokens(const ModelSpec& spec, const SamplingParams& params,
                                   int num_generated) {
  std::vector<TokenId> banned = spec.suppressed;
  const auto ban = [&](const std::vector<TokenId>& tokens) {
    banned.insert(banned.end(), tokens.begin(), tokens.end());
  };
  if (num_generated == 0) ban(spec.suppressed_first);
  if (num_generated < std::max(params.min_tokens, params.floor.tokens)) {
    ban(params.stop_token_ids);
    if (!params.ignore_eos) ban(spec.eos_tokens);
  }
  return banned;
}

bool ends_by_force(const ModelSpec& spec, const Sequence& seq, int length) {
  return spec.forced_end && !seq.request->sampling.ignore_eos && length == seq.max_tokens;
}

}  // namespace pagedinfer
