#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/request.h"
#include "engine/answer_builder.h"
#include "engine/pull.h"
#include "engine/sample_forms.h"
#include "grammar/form_progress.h"
#include "model/spec.h"
#include "sched/line_turn.h"
#include "sched/scheduler.h"
#include "stats/run_stats.h"
#include "text/stop_strings.h"

namespace pagedinfer {

// The lines that are being computed: gives each its turn in the scheduler, follows the tokens of
// its samples, and answers it when the last sample has ended. Knows nothing of steps or devices.
class RequestTracker {
 public:
  // As EnginePorts::done.
  using Done = std::function<void(Completion, const RequestStats&)>;

  // Without a tokenizer completions have no text. All arguments outlive the tracker. `num_traced`
  // means the same as in EngineParts.
  RequestTracker(const ModelSpec& spec, const Tokenizer* tokenizer, Scheduler& scheduler,
                 int num_traced = -1)
      : spec_(spec),
        tokenizer_(tokenizer),
        scheduler_(scheduler),
        builder_(spec, tokenizer, num_traced) {}

  // Answers a line at once if it is an error, if one of its prompts can never run, or if there is
  // nothing to compute.
  void submit(EngineLine line, double now, const Done& done);

  // The scheduler admits `seq` (Scheduler::OnAdmit).
  void on_admit(const Sequence& seq);

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
    std::vector<double> token_times = {};
    std::optional<TextStream> text = {};
  };
  struct Line;
  struct Prompt {
    Line* line = nullptr;
    ComputedPrompt computed = {};
    std::vector<Sample> samples = {};
    std::optional<SampleForms> forms = {};  // if the answers must have a form
  };
  // Kept through preemption.
  struct Line {
    RecordHead head = {};
    std::vector<Prompt> prompts = {};
    std::shared_ptr<const CompiledForm> form = {};  // EngineLine::form
    RequestTiming timing = {};
    std::optional<LineTurn> turn = {};  // unless there is nothing to compute
    RequestError error = {};            // of the failed sample with the lowest age
    Age failed_age = {};
    int num_preemptions = 0;
    int64_t num_recomputed = 0;
    int num_found = 0;
  };

  Prompt& prompt_of(const Sequence& seq) { return *prompts_.at(seq.request); }
  std::unique_ptr<Line> make_line(PreparedLine prepared,
                                  std::shared_ptr<const CompiledForm> form) const;
  void begin(std::unique_ptr<Line> line, double now, const Done& done);
  static void fail(Age age, RequestError error, Line& line);
  void answer(Line& line, double now, const Done& done) const;
  RequestError error_of_draw(const Sequence& seq, Prompt& prompt) const;

  const ModelSpec& spec_;
  const Tokenizer* tokenizer_;
  Scheduler& scheduler_;
  const AnswerBuilder builder_;
  std::unordered_map<const Line*, std::unique_ptr<Line>> lines_;
  std::unordered_map<const Request*, Prompt*> prompts_;  // of these lines, if they are computed
};

}  // namespace pagedinfer
