#pragma once

#include <functional>
#include <vector>

#include "core/request.h"
#include "io/interrupt.h"
#include "load/loaded_model.h"
#include "settings/config.h"
#include "stats/lines.h"
#include "stats/report.h"

namespace pagedinfer {

// Runs the file of prompts that `config` names, from file in to file out. Returns the exit
// code: 0 all lines completed, 2 some ended in an error record, 130 interrupted. Throws Error
// when the run cannot go on. `load` loads the model for this configuration.
using Load = std::function<LoadedModel(const Config&, const std::function<double()>& clock)>;
int run_job(
    const Config& config,
    const Load& load = [](const Config& config, const std::function<double()>& clock) {
      return load_model({config}, clock);
    });

// The same for several configurations, as load_model() takes them.
using LoadAll =
    std::function<LoadedModel(const std::vector<Config>&, const std::function<double()>& clock)>;

// What a run over a loaded model gives back.
struct JobResult {
  int exit_code = 0;
  RunInfo info = {};
  Summary summary = {};
};

// For who wants more of a run than its records.
struct JobWatcher {
  int num_candidates = -1;  // that completions keep of each draw; -1: they keep no draws
  std::function<void(const Completion&)> answered = [](const Completion&) {};  // each one, once
  bool tells = true;  // else nothing is printed but progress and faults of the program
};

// The same over a model that is loaded, with `plan`, which is its plan for `config`. Its clock
// begins now. REQUIRES: validate(config) passed; no other run over the model goes on.
JobResult run_over(const Config& config, LoadedModel& model, const RunPlan& plan,
                   Interrupt& interrupt, const JobWatcher& watcher = {});

}  // namespace pagedinfer
