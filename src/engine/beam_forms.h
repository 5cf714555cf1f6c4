#pragma once

#include <map>
#include <span>
#include <vector>

#include "core/request.h"
#include "grammar/form_progress.h"
#include "sched/beam_search.h"

namespace pagedinfer {

// The progress of a search's beams in the form that its completions must have. A beam is identified
// by its tokens, so this class need not know which beams go on.
class BeamForms {
 public:
  // `begin` is the progress of a beam without tokens.
  explicit BeamForms(FormProgress begin) { now_.emplace(std::vector<TokenId>(), std::move(begin)); }

  // The progress of a beam that the search goes on with. REQUIRES: role_of() was called for its
  // last token, and no beam with more tokens was asked for since then.
  FormProgress& of(std::span<const TokenId> beam);

  // The role of `token` as the next token of `beam`. It ends the beam if it completes the form and
  // nothing may follow. REQUIRES: the beam's mask allows the token, and it is not an end token.
  TokenRole role_of(std::span<const TokenId> beam, TokenId token);

 private:
  using ByTokens = std::map<std::vector<TokenId>, FormProgress>;
  ByTokens now_ = {}, next_ = {};  // next_: one token more; the search follows some of these
};

}  // namespace pagedinfer
