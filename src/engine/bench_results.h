// The lines that `bench --results` appends.
#pragma once

#include <string>

#include "engine/bench_config.h"
#include "engine/job.h"

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

}  // namespace pagedinfer
