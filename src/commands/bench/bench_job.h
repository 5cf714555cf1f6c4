#pragma once

#include <functional>
#include <vector>

#include "commands/bench/bench_config.h"
#include "commands/run/job.h"
#include "load/loaded_model.h"

namespace pagedinfer {

// Makes the workload and runs it as run_job() runs a file, with the closing table and a line of
// results. Returns the exit code of the run. Throws Error if the run cannot go on. `load` loads the
// model for all configurations.
int run_bench(
    const BenchConfig& bench, const LoadAll& load = [](const std::vector<Config>& configs,
                                                       const std::function<double()>& clock) {
      return load_model(configs, clock);
    });

}  // namespace pagedinfer
