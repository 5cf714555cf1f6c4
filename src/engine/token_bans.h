// Which tokens may be drawn.
#pragma once

#include <vector>

#include "core/request.h"
#include "model/spec.h"
#include "sched/sequence.h"

namespace pagedinfer {

// What a completion of `num_generated` tokens must not go on with: what the model's authors
// suppress and, unless it has the form of its answer, ends that would come too early. At the
// beginning everything that is banned later.
std::vector<TokenId> banned_tokens(const ModelSpec& spec, const SamplingParams& params,
                                   int num_generated, bool has_form = false);

// The tokens that may end a completion.
std::vector<TokenId> end_tokens(const ModelSpec& spec, const SamplingParams& params);

// How many candidates a step of a beam search needs of each beam.
int num_beam_candidates(const ModelSpec& spec, const SamplingParams& params);

// What a token does as the next one of `beam`, or of another beam of its search. Of an answer that
// must have a form: as if it had it.
BeamSearch::RoleOf roles_in_beam(const ModelSpec& spec, const Sequence& beam);

// Whether the token that makes a sequence so long is the model's end, whatever the logits say.
bool ends_by_force(const ModelSpec& spec, const Sequence& seq, int length);

}  // namespace pagedinfer
