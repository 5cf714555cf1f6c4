#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/request.h"
#include "engine/beam_forms.h"
#include "engine/pull.h"
#include "grammar/form_progress.h"
#include "model/spec.h"
#include "sched/scheduler.h"
#include "stats/run_stats.h"
#include "text/stop_strings.h"

namespace pagedinfer {

// The lines that are being computed: submits the requests of their prompts to the scheduler,
// follows the tokens of their samples, and answers each line when its last sample has ended. Knows
// nothing of steps or devices.
class RequestTracker {
 public:
  // As EnginePorts::done.
  using Done = std::function<void(Completion, const RequestStats&)>;

  // Without a tokenizer completions have no text. All arguments outlive the tracker. `num_traced`
  // means the same as in EngineParts.
  RequestTracker(const ModelSpec& spec, const Tokenizer* tokenizer, Scheduler& scheduler,
                 int num_traced = -1)
      : spec_(spec), tokenizer_(tokenizer), scheduler_(scheduler), num_traced_(num_traced) {}

  // Answers a line at once if it is an error, if one of its prompts can never run, or if there is
  // nothing to compute.
  void submit(EngineLine line, double now, const Done& done);

  // A step that computes tokens of `seq` begins.
  void on_step(const Sequence& seq, double now);

  // The progress in its form of a sample of the request of `seq`, valid until the sample ends. If
  // `seq` is a beam, its own progress. REQUIRES: the request has a form.
  FormProgress& form_of(const Sequence& seq, int sample);

  // The prompt's token at `position` was scored, which means drawn as the only allowed token.
  // Scores that a preempted sequence repeats are dropped.
  void on_prompt_token(const Sequence& seq, int position, const DrawnToken& scored);

  // As RolesOf (sched/sequence.h).
  BeamSearch::RoleOf roles_in_beam(const Sequence& beam);

  // Takes `token`, the latest of `seq`. Returns why the sequence ends with it; nullopt if it goes
  // on. As EndOf (sched/sequence.h).
  std::optional<FinishReason> on_token(const Sequence& seq, const DrawnToken& token, double now);

  // Takes `seq`, which has left the scheduler, and keeps the result of its sample: its tokens, or
  // an error if `step`, its last step, failed or the logits were not finite. When no sample of the
  // request is left, calls `done` with the completion.
  void finish(Sequence seq, const Result<>& step, double now, const Done& done);

  // The tokens drawn so far for each line that has begun and is not answered, in any order.
  std::vector<int64_t> drawn_so_far() const;

 private:
  struct Sample {
    CompletionChoice choice = {};
    std::vector<double> token_times = {};
    std::optional<TextStream> text = {};
    std::optional<FormProgress> form = {};      // from the first draw on, if the answer has a form
    double sum_log_probs = 0;                   // of the tokens, to choose the best samples
    std::vector<TokenLogProbs> log_probs = {};  // if asked for: of tokens in the text
    std::vector<DrawnToken> draws = {};         // of its tokens, if draws are kept
  };
  struct Line;
  struct Prompt {
    Line* line = nullptr;
    Request request = {};
    std::vector<Sample> samples = {};
    std::vector<TokenLogProbs> log_probs = {};  // if asked for: of the prompt's tokens
    std::vector<uint64_t> hashes = {};          // an entry of DrawTrace::prompt_hashes
    std::optional<BeamForms> beam_forms = {};   // as Sample::form
    // What each beam drew, by the tokens that the beam had before. Empty unless draws are kept.
    std::map<std::vector<TokenId>, DrawnToken> beam_draws = {};
  };
  // Kept through preemption.
  struct Line {
    std::vector<Prompt> prompts = {};
    std::shared_ptr<const CompiledForm> form = {};  // EngineLine::form
    std::vector<int64_t> ages = {};                 // of the first sample of each computed prompt
    RequestTiming timing = {};
    int num_left = 0;         // samples that have not ended
    RequestError error = {};  // of the failed sample with the lowest age
    int64_t failed_age = 0;
    int num_preemptions = 0;
    int64_t num_recomputed = 0;
    int num_found = 0;
  };

  Prompt& prompt_of(const Sequence& seq) { return *prompts_.at(seq.age - seq.sample); }
  std::unique_ptr<Line> make_line(Request first, std::shared_ptr<const CompiledForm> form) const;
  void begin(std::unique_ptr<Line> line, double now, const Done& done);
  static void fail(int64_t age, RequestError error, Line& line);
  void answer(Line& line, double now, const Done& done) const;
  void keep_beams(const Sequence& seq, Prompt& prompt) const;
  static std::optional<FinishReason> follow_form(TokenId token, Sample& sample);
  FormProgress begin_form(const Prompt& prompt) const;
  bool lacks_tokens(const Sequence& seq);
  bool may_draw(FormProgress& form, const SamplingParams& params, int num_generated) const;
  RequestError error_of_draw(const Sequence& seq, Prompt& prompt) const;
  CompletionChoice choice_of(const FinishedBeam& beam, const SamplingParams& params) const;
  std::vector<DrawnToken> draws_of(const FinishedBeam& beam, const Prompt& prompt) const;

  // Moves the function calls in an answer's text to its tool_calls.
  void speak_calls(const Request& request, CompletionChoice& choice) const;
  // Adds a prompt's results to the completion.
  void add_results(Prompt& prompt, Completion& completion) const;
  static std::vector<size_t> order_of_choices(const Prompt& prompt);

  const ModelSpec& spec_;
  const Tokenizer* tokenizer_;
  Scheduler& scheduler_;
  const int num_traced_;
  std::unordered_map<int64_t, std::unique_ptr<Line>> lines_;  // by their first age
  std::unordered_map<int64_t, Prompt*> prompts_;              // by the age of sample 0
};

}  // namespace pagedinfer
