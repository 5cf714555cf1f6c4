// Which tokens may be drawn.
#pragma once

#include <vector>

#include "core/request.h"
#include "model/spec.h"
#include "sched/sequence.h"

namespace pagedinfer {

// The tokens that may not follow the first `num_generated` tokens of a completion: tokens that the
// model's files suppress and, unless the completion already has its form, end tokens that would
// come too early. For num_generated = 0 the result includes everything that is banned later.
std::vector<TokenId> banned_tokens(const ModelSpec& spec, const SamplingParams& params,
                                   int num_generated, bool has_form = false);

// The tokens that may end a completion.
std::vector<TokenId> end_tokens(const ModelSpec& spec, const SamplingParams& params);

// How many candidates a beam search needs for each beam in a step.
int num_beam_candidates(const ModelSpec& spec, const SamplingParams& params);

// The role of a token as the next token of `beam`, or of another beam of its search. If the answer
// must have a form, the role is that of a token after a complete form.
BeamSearch::RoleOf roles_in_beam(const ModelSpec& spec, const Sequence& beam);

// Whether the token that makes the sequence `length` tokens long is forced to be the model's end,
// whatever the logits are.
bool ends_by_force(const ModelSpec& spec, const Sequence& seq, int length);

}  // namespace pagedinfer
