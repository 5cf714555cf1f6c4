// The step loop: the only place where scheduling, the model, sampling and the clock meet.
//
// With overlapping steps the next step is planned and launched while the device computes the one
// before it; only then are the tokens of that one collected and committed. core/batch.h explains
// placeholder tokens and surplus rows. Where a step draws tokens that must have a form, those of
// the step before are collected between its forward pass and its draws, so that what the form
// allows is found out while the device computes.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
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

// What an Engine runs on; all of it outlives the engine.
struct EngineParts {
  const ModelSpec& spec;
  const Weights& weights;
  std::vector<KvLayer>& cache;  // one per layer, with all positions of the pool
  KvPool& pool;
  StepProtocol& steps;
  Arithmetic& arithmetic;         // of the same device
  const Tokenizer* tokenizer;     // null: completions have no text
  std::function<double()> clock;  // seconds since the run began
  // Steps overlap. For devices that compute while the host does other work: where the host is the
  // device nothing is gained, and surplus rows cost.
  bool overlaps = false;
};

// Where requests come from and where answers go.
struct EnginePorts {
  // The next line's item. Waits for no more than it is asked to, and ends its wait early when the
  // run is interrupted: then kLater or kNotArrived.
  std::function<Pull(Wait wait, IntakeItem& item)> next;
  // Called once per line: in order of finishing, and at once for a line that can never run.
  std::function<void(Completion, const RequestStats&)> done;
  // After every step, when all that it finished is done.
  std::function<void(const StepStats&)> stepped;
  // An audit has found that many blocks of the pool that no sequence accounts for, and has freed
  // them.
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
        requests_(parts_.spec, parts_.tokenizer, scheduler_) {}

  // Reads requests, at most a window ahead, until every one is answered. A step that fails is tried
  // once more; if it fails again, its requests and those of a step launched after it are answered
  // with an error and the run continues. After a failed step and at the end the pool is audited.
  // Throws DeviceLost at once, and what the ports throw. However it ends, no cache position stays
  // leased.
  void run(const EnginePorts& ports);

 private:
  struct Step {
    StepPlan plan = {};
    StepStats stats = {};
    std::optional<StepProtocol::Ticket> ticket = {};  // none: it draws nothing
  };

  void run_steps(const EnginePorts& ports);
  bool fill_window(const EnginePorts& ports);  // false: there will be no more
  Wait how_to_wait() const;
  void step(const EnginePorts& ports);
  // launch() and collect() return "" or the error.
  std::string launch(Step& step, const EnginePorts& ports);
  std::string compute(Step& step, const EnginePorts& ports);
  void retire_in_flight(const StepPlan* next, const EnginePorts& ports);
  std::string collect(Step& step);
  Tensor queue_forward(Step& step);
  void queue_draws(Step& step, Tensor logits);
  void flatten(const StepPlan& plan);
  void make_rows(const StepPlan& plan);  // leaves them in rows_
  void make_masks(const StepPlan& plan);
  void limit_choice(const Sequence& seq, int position, FormProgress* form, SampleRow& row);
  void force_ends(const StepPlan& plan);
  void describe(Step& step) const;
  void end(Step& step, std::vector<Sequence> finished, const std::string& failure, double now,
           const EnginePorts& ports);
  void audit(const EnginePorts& ports);

  EngineParts parts_;
  Scheduler scheduler_;
  RequestTracker requests_;
  std::optional<Step> in_flight_;  // launched and not committed

  // Of the step in hand; members so that their memory is reused.
  std::vector<const Sequence*> sequences_;  // of its chunks, while it is launched; null: has ended
  Batch batch_;
  std::vector<SampleRow> rows_;
  std::vector<std::vector<TokenId>> banned_;
  std::vector<FormProgress*> forms_;  // of its draws; null: any text may be drawn
  std::vector<DrawnToken> drawn_;
};

}  // namespace pagedinfer
