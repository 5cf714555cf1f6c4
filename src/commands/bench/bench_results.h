// The lines that `bench --results` appends, and what they say of the machine and of completions.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "commands/bench/bench_config.h"
#include "commands/run/job.h"
#include "stats/comparison.h"

namespace pagedinfer {

// The workload that was run; every line of results describes it.
struct MeasuredWorkload {
  const BenchConfig& bench;
  const BenchWorkload& workload;
  double rate = 0;      // arrivals per second; 0: all at once
  double capacity = 0;  // requests per second, if the rate is a share of it
};

// {"commit","machine","command","version","workload","config","summary"}
void append_result_line(std::string& out, const MeasuredWorkload& measured,
                        const JobResult& result);

// The measurements of configurations that ran in turn.
struct Comparison {
  std::vector<RunInfo> infos = {};  // of each configuration
  std::vector<ComparedRuns> runs = {};
  std::optional<bool> same_completions = {};  // none: the configurations may differ in completions
};

// {"commit","machine","command","version","workload","pairs","configurations","ratios",
// "same_completions"}
void append_comparison_line(std::string& out, const MeasuredWorkload& measured,
                            const Comparison& comparison);

// The processor that the program runs on. An unknown field is empty.
struct Processor {
  std::string name = {}, family = {}, model = {};
};

// Reads the text of /proc/cpuinfo.
Processor read_processor(std::istream& from);
Processor this_processor();

// The first line in which two files differ, from 1; nullopt if they have the same bytes. Throws
// Error if one cannot be read.
std::optional<int64_t> first_difference(const std::string& a, const std::string& b);

}  // namespace pagedinfer
