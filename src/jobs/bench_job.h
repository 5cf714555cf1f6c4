#pragma once

#include "jobs/bench_config.h"

namespace pagedinfer {

// Makes the workload and runs it as run_job() runs a file: to its end, with the closing table and a
// line of results. Returns the exit code: that of the run. Throws Error when the run cannot go on.
int run_bench(const BenchConfig& bench);

}  // namespace pagedinfer
