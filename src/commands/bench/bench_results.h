// The lines that `bench --results` appends.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "commands/bench/bench_config.h"
#include "commands/run/job.h"
#include "stats/comparison.h"

namespace pagedinfer {

// What was run, as every line of results says it.
struct MeasuredWorkload {
  const BenchConfig& bench;
  const BenchWorkload& workload;
  double rate = 0;      // of the arrivals; 0: all at once
  double capacity = 0;  // requests per second, where the rate is a share of it
};

// {"commit","machine","command","version","workload","config","summary"}
void append_result_line(std::string& out, const MeasuredWorkload& measured,
                        const JobResult& result);

// What configurations have measured in turn.
struct Comparison {
  std::vector<RunInfo> infos = {};  // of each configuration
  std::vector<ComparedRuns> runs = {};
  std::optional<bool> same_completions = {};  // none: they need not be the same
};

// {"commit","machine","command","version","workload","pairs","configurations","ratios",
// "same_completions"}
void append_comparison_line(std::string& out, const MeasuredWorkload& measured,
                            const Comparison& comparison);

}  // namespace pagedinfer
