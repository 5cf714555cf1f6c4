#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/request.h"
#include "model/spec.h"
#include "sched/beam_search.h"
#include "text/stop_strings.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// What was drawn for one sample of a prompt.
struct ComputedSample {
  CompletionChoice choice = {};
  double sum_log_probs = 0;                   // of the tokens, to choose the best samples
  std::vector<TokenLogProbs> log_probs = {};  // if asked for: of tokens in the text
  std::vector<DrawnToken> draws = {};         // of its tokens, if draws are kept
};

// What was computed for one prompt of a line.
struct ComputedPrompt {
  Request request = {};
  std::vector<ComputedSample> samples = {};
  std::vector<TokenLogProbs> log_probs = {};  // if asked for: of the prompt's tokens
  std::vector<uint64_t> hashes = {};          // an entry of DrawTrace::prompt_hashes
  // What each beam drew, by the tokens that the beam had before. Empty unless draws are kept.
  std::map<std::vector<TokenId>, DrawnToken> beam_draws = {};
};

// Makes choices of a record from drawn tokens. Knows nothing of sequences, steps and time.
class AnswerBuilder {
 public:
  // Without a tokenizer answers have no text. All arguments outlive the builder. `num_traced` means
  // the same as in EngineParts.
  AnswerBuilder(const ModelSpec& spec, const Tokenizer* tokenizer, int num_traced)
      : spec_(spec), tokenizer_(tokenizer), num_traced_(num_traced) {}

  // The prompt before anything is computed.
  ComputedPrompt begin(Request request) const;

  // Takes what was drawn where the prompt's token at `position` was scored, unless it is scored
  // already. Returns whether the token has a log probability.
  bool add_score(const DrawnToken& scored, int position, ComputedPrompt& prompt) const;

  // Takes a token of a sample. `is_shown` says whether the text shows it.
  void add_token(const DrawnToken& drawn, bool is_shown, const SamplingParams& params,
                 ComputedSample& sample) const;

  // Takes what a beam drew after its first tokens `before`.
  void add_beam_draw(const DrawnToken& drawn, std::span<const TokenId> before,
                     ComputedPrompt& prompt) const;

  // The text of a sample whose last token has been taken, and the place of each token in it.
  static void set_text(const TextStream& text, ComputedSample& sample);

  // The best beams become the samples.
  void keep_beams(std::span<const FinishedBeam> beams, ComputedPrompt& prompt) const;
  CompletionChoice choice_of(const FinishedBeam& beam, const SamplingParams& params) const;

  // Adds a prompt whose samples have all ended to the completion of its line.
  void add_to(Completion& completion, ComputedPrompt prompt) const;

 private:
  std::vector<DrawnToken> draws_of(const FinishedBeam& beam, const ComputedPrompt& prompt) const;
  void find_calls_in(CompletionChoice& choice, const Request& request) const;

  const ModelSpec& spec_;
  const Tokenizer* tokenizer_;
  const int num_traced_;
};

}  // namespace pagedinfer
