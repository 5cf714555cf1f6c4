// The step loop: the only place where scheduling, the model, sampling and the clock meet.
//
// With overlapping steps, the next step is planned and launched while the device computes the
// previous step. Only then are the previous step's tokens collected and committed. core/batch.h
// explains placeholder tokens and surplus rows. If a step draws tokens that must have a form, the
// previous step's tokens are collected between its forward pass and its draws. So the tokens that
// the form allows are found while the device computes.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/request.h"
#include "engine/pull.h"
#include "engine/request_tracker.h"
#include "grammar/form_progress.h"
#include "kv/kv_pool.h"
#include "model/decoder.h"
#include "sched/scheduler.h"
#include "stats/run_stats.h"

namespace pagedinfer {

// The parts that an Engine runs on. All outlive the engine.
struct EngineParts {
  const ModelSpec& spec;
  const Weights& weights;
  std::vector<KvLayer>& cache;  // one per layer, with all positions of the pool
  KvPool& pool;
  StepProtocol& steps;
  Arithmetic& arithmetic;         // of the same device
  const Tokenizer* tokenizer;     // null: completions have no text
  std::function<double()> clock;  // seconds since the run began
  // Whether steps overlap. This helps on devices that compute while the host does other work. If
  // the host is the device, it gains nothing and surplus rows cost time.
  bool overlaps = false;
  // How many candidates of each draw Completion::trace keeps; -1: no draws are kept.
  int num_traced = -1;
};

// The functions that supply requests and take answers.
struct EnginePorts {
  // Gives the next line. Waits for no more than `wait` says. If the run is interrupted, ends the
  // wait early with kLater or kNotArrived.
  std::function<Pull(Wait wait, EngineLine& line)> next;
  // Called once for each line, in the order of finishing. A line that can never run is answered at
  // once.
  std::function<void(Completion, const RequestStats&)> done;
  // Called after every step, after `done` for all lines that it finished.
  std::function<void(const StepStats&)> stepped;
  // Called if an audit has found, and freed, this many blocks that no sequence holds.
  std::function<void(int num_blocks)> leaked = [](int) {};
  // Asked before every step; true ends the run after the step in flight and drops unfinished
  // requests.
  std::function<bool()> interrupted;
};

class Engine {
 public:
  Engine(EngineParts parts, const SchedulerLimits& limits)
      : parts_(std::move(parts)),
        scheduler_(parts_.pool, limits),
        requests_(parts_.spec, parts_.tokenizer, scheduler_, parts_.num_traced) {}

  // Reads requests, at most a window ahead, until every one is answered. A step that fails is tried
  // once more; if it fails again, its requests and those of a step launched after it are answered
  // with an error and the run continues. After a failed step and at the end the pool is audited.
  // Throws DeviceLost at once, and what the ports throw. No cache position stays leased, however
  // the run ends.
  void run(const EnginePorts& ports);

  // As RequestTracker.
  std::vector<int64_t> drawn_so_far() const { return requests_.drawn_so_far(); }

 private:
  struct Step {
    StepPlan plan = {};
    StepStats stats = {};
    std::optional<StepProtocol::Ticket> ticket = {};  // none: the step draws no tokens
  };

  void run_steps(const EnginePorts& ports);
  bool fill_window(const EnginePorts& ports);  // false: there will be no more
  Wait how_to_wait() const;
  void step(const EnginePorts& ports);
  Result<> launch(Step& step, const EnginePorts& ports);
  void retire_in_flight(const StepPlan* next, const EnginePorts& ports);
  Result<> collect(Step& step);
  Tensor queue_forward(Step& step);
  void queue_draws(Step& step, Tensor logits);
  void flatten(const StepPlan& plan);
  void make_rows(const StepPlan& plan);  // leaves them in rows_
  void make_masks(const StepPlan& plan);
  void limit_choice(const Sequence& seq, int position, FormProgress* form, SampleRow& row);
  void force_ends(const StepPlan& plan);
  void describe(Step& step) const;
  void end(Step& step, std::vector<Sequence> finished, const Result<>& result, double now,
           const EnginePorts& ports);
  void audit(const EnginePorts& ports);

  EngineParts parts_;
  Scheduler scheduler_;
  RequestTracker requests_;
  std::optional<Step> in_flight_;  // launched and not committed

  // Of the step that is being launched or retired. They are members so that their memory is reused.
  Batch batch_;
  std::vector<SampleRow> rows_;
  std::vector<std::vector<TokenId>> banned_;
  std::vector<FormProgress*> forms_;  // of its draws; null: no form
  std::vector<DrawnToken> drawn_;
};

}  // namespace pagedinfer
