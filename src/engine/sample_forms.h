#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/request.h"
#include "engine/beam_forms.h"
#include "grammar/compiled_form.h"
#include "grammar/form_progress.h"
#include "model/spec.h"
#include "sched/sequence.h"

namespace pagedinfer {

// The progress of a request's samples, or of its beams, in the form that the answers must have.
class SampleForms {
 public:
  // All arguments outlive this. REQUIRES: the request has the form.
  SampleForms(const ModelSpec& spec, const Request& request, const CompiledForm& form)
      : spec_(spec), request_(request), form_(form) {}

  // The progress of a sample, from its first draw on, valid until end(). If `seq` is a beam, its
  // own progress.
  FormProgress& of(const Sequence& seq, int sample);

  // The role of a token as the next token of `beam`, or of another beam of its search.
  BeamSearch::RoleOf roles_in_beam(const Sequence& beam);

  // Follows the latest token of a sample. An answer ends without an end token if its form is
  // complete and nothing may follow.
  std::optional<FinishReason> accept(int sample, TokenId token);

  // Whether the form allows no token where the latest token of the beam was drawn. Such a beam is
  // dropped, and the search goes on with the others.
  bool lacks_tokens(const Sequence& beam);

  // Why `seq` has no next token after `tokens`, or why no beam of its search can go on: "" if
  // the form allows a token that may be drawn.
  std::string why_no_token(const Sequence& seq, std::span<const TokenId> tokens);

  // The sample, or the search, has ended.
  void end(int sample);

 private:
  FormProgress begin() const;
  bool may_draw(FormProgress& form, size_t num_generated) const;

  const ModelSpec& spec_;
  const Request& request_;
  const CompiledForm& form_;
  std::map<int, FormProgress> samples_ = {};  // those that have not ended
  std::optional<BeamForms> beams_ = {};
};

}  // namespace pagedinfer
