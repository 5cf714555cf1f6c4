#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "core/request.h"
#include "io/interrupt.h"
#include "load/loaded_model.h"
#include "settings/config.h"
#include "stats/lines.h"
#include "stats/report.h"

namespace pagedinfer {

// Seconds since this call.
inline std::function<double()> clock_from_now() {
  using Clock = std::chrono::steady_clock;
  return [begin = Clock::now()] {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
}

// Runs the file of prompts that `config` names and writes the outputs. Returns the exit code: 0 all
// lines completed, 2 some lines ended in an error record, 130 interrupted. Throws Error if the run
// cannot go on. `decorate` may decorate the loaded model.
using Decorate = std::function<void(LoadedModel&)>;
int run_job(
    const Config& config, const Decorate& decorate = [](LoadedModel&) {});

// Loads a model for several configurations, as load_model() does.
using LoadAll =
    std::function<LoadedModel(const std::vector<Config>&, const std::function<double()>& clock)>;

// The result of a run over a loaded model.
struct JobResult {
  int exit_code = 0;
  RunInfo info = {};
  Summary summary = {};
};

// For callers that need more of a run than its records.
struct JobWatcher {
  int num_candidates = -1;  // as EngineParts::num_traced
  std::function<void(const Completion&)> answered = [](const Completion&) {};  // once a line
  bool tells = true;  // false: only progress and faults of the program are printed
};

// The same over a loaded model. `plan` is the model's plan for `config`. The run's clock begins
// now. REQUIRES: validate(config) passed; no other run uses the model at the same time.
JobResult run_over(const Config& config, LoadedModel& model, const RunPlan& plan,
                   Interrupt& interrupt, const JobWatcher& watcher = {});

}  // namespace pagedinfer
