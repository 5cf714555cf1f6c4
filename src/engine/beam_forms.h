#pragma once

#include <map>
#include <span>
#include <vector>

#include "core/request.h"
#include "grammar/form_progress.h"
#include "sched/beam_search.h"

namespace pagedinfer {

// How far the beams of a search have come in the form that its completions must have. Which beams
// go on is not known here: a beam is its tokens.
class BeamForms {
 public:
  // `begin` is the progress of the beam without tokens.
  explicit BeamForms(FormProgress begin) { now_.emplace(std::vector<TokenId>(), std::move(begin)); }

  // Of a beam that the search goes on with. REQUIRES: role_of() was asked for its last token, and
  // since then no beam with more tokens was asked for.
  FormProgress& of(std::span<const TokenId> beam);

  // What a token of its mask that ends no completion does as the next one of a beam: it ends a beam
  // that has the form with it, behind which nothing may follow.
  TokenRole role_of(std::span<const TokenId> beam, TokenId token);

 private:
  using ByTokens = std::map<std::vector<TokenId>, FormProgress>;
  ByTokens now_ = {}, next_ = {};  // next_: with a token more, not all of which the search follows
};

}  // namespace pagedinfer
