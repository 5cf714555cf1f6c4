#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/request.h"
#include "engine/pull.h"
#include "model/spec.h"
#include "sched/scheduler.h"
#include "stats/run_stats.h"
#include "text/stop_strings.h"

namespace pagedinfer {

// The requests that are being computed: submits them to the scheduler, follows the tokens of their
// samples, and answers each when its last sample has ended. Knows nothing of steps or devices.
class RequestTracker {
 public:
  // As EnginePorts::done.
  using Done = std::function<void(Completion, const RequestStats&)>;

  // A null tokenizer: completions have no text. All outlive the tracker.
  RequestTracker(const ModelSpec& spec, const Tokenizer* tokenizer, Scheduler& scheduler)
      : spec_(spec), tokenizer_(tokenizer), scheduler_(scheduler) {}

  // Answers an item that is an error, or a request that can never run, at once.
  void submit(IntakeItem item, double now, const Done& done);

  // A step that computes tokens of `seq` begins.
  void on_step(const Sequence& seq, double now);

  // `token`, the latest of `seq`, is known. Why the sequence ends with it; nullopt if it goes on.
  std::optional<FinishReason> on_token(const Sequence& seq, const DrawnToken& token, double now);

  // Takes `seq`, which has left the scheduler, and keeps the result of its sample: its tokens, or
  // an error if `failure` is not "" or the logits were not finite. When no sample of the request is
  // left, calls `done` with the completion.
  void finish(Sequence seq, const std::string& failure, double now, const Done& done);

 private:
  struct Sample {
    CompletionChoice choice = {};
    std::vector<double> token_times = {};
    std::optional<TextStream> text = {};
  };
  // Kept through preemption.
  struct Tracked {
    Request request = {};
    RequestTiming timing = {};
    std::vector<Sample> samples = {};
    int num_left = 0;         // samples that have not ended
    RequestError error = {};  // of a sample
    int num_preemptions = 0;
    int64_t num_recomputed = 0;
  };

  Tracked& tracked(const Sequence& seq) { return *tracked_.at(seq.age - seq.sample); }
  void answer(Tracked& request, double now, const Done& done) const;

  const ModelSpec& spec_;
  const Tokenizer* tokenizer_;
  Scheduler& scheduler_;
  std::unordered_map<int64_t, std::unique_ptr<Tracked>> tracked_;  // by the age of sample 0
};

}  // namespace pagedinfer
