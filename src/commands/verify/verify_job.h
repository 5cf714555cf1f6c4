#pragma once

#include <functional>
#include <vector>

#include "commands/run/job.h"
#include "commands/verify/verify_config.h"
#include "load/loaded_model.h"

namespace pagedinfer {

// Runs a file of prompts in two configurations, as run_job() runs it, and compares their answers.
// Returns the exit code: 0 all requests agree, 1 blocks of the cache leaked in a run, 2 some
// requests differ, 130 interrupted. Throws Error if a run cannot go on. `load` loads one model for
// all its configurations.
int run_verify(
    const VerifyConfig& verify, const LoadAll& load = [](const std::vector<Config>& configs,
                                                         const std::function<double()>& clock) {
      return load_model(configs, clock, Touch::kNo);
    });

}  // namespace pagedinfer
