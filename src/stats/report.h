#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stats/histogram.h"
#include "stats/run_stats.h"

namespace pagedinfer {

// How a time is spread, in seconds; of `count` 0 it says nothing.
struct Spread {
  int64_t count = 0;
  double mean = 0, deviation = 0, p50 = 0, p90 = 0, p99 = 0, max = 0;
};
Spread spread_of(const Histogram& histogram);

// The latencies of one request in seconds, from the moment when its line was read. REQUIRES of
// each: the request completed.
double queue_time(const RequestStats& request);  // to its admission
double time_to_first_token(const RequestStats& request);
double end_to_end_latency(const RequestStats& request);
// The gaps between neighbouring token times: none for a completion of one token.
std::vector<double> inter_token_latencies(const RequestStats& request);
// The mean of the gaps. REQUIRES: there is one.
double time_per_output_token(const RequestStats& request);

// Times that no step sees, in seconds. Reading and tokenizing run beside the engine, so the
// parts of a run need not add up to its whole.
struct RunTimes {
  double load = 0;
  double tokenize = 0;  // of processors: parsing and tokenizing, summed over the threads
  double output = 0;
  double total = 0;  // from the start of the program to its end
};

// A run in numbers. Requests that failed count in `failed` and in nothing else but
// preemptions and recomputed tokens.
struct Summary {
  int64_t completed = 0, failed = 0;
  int64_t resumed = 0;  // records that an earlier run had written; they count nowhere else
  std::map<std::string, int64_t> failed_by_code = {};
  int64_t input_tokens = 0, output_tokens = 0;
  int64_t preemptions = 0, recomputed_tokens = 0;

  // From the reading of the first completed request or the first step, whichever is
  // earlier, to the last completion or the last step's end.
  double duration = 0;  // seconds
  // completed, input_tokens, output_tokens and both tokens, each divided by duration.
  double request_throughput = 0, input_throughput = 0, output_throughput = 0;
  double total_throughput = 0;

  Spread queue = {}, ttft = {}, e2e = {};  // over completed requests
  Spread itl = {};                         // over all gaps of all of them
  Spread tpot = {};                        // over completed requests with at least two tokens

  int64_t steps = 0, step_tokens = 0, prefill_tokens = 0, decode_tokens = 0;
  int peak_running = 0;
  double mean_running = 0;  // per step

  // Means are over steps, weighted by what they divide by: sum of one over sum of the other.
  double kv_use_peak = 0, kv_use_mean = 0;  // positions leased / positions of the pool
  double slot_utilization = 0;              // tokens held / positions leased
  double internal_fragmentation = 0;        // 1 - slot_utilization
  double contiguous_ratio = 0;  // positions that reservations would hold / positions leased
  int64_t positions_total = 0, positions_leased_peak = 0, positions_contiguous_peak = 0;
  int64_t tokens_held_peak = 0;

  // host = plan + commit, device = stage + forward + sample, summed over the steps.
  double load = 0, tokenize = 0, device = 0, host = 0, output = 0, total = 0;
};

// Takes the records as they come and remembers only sums and histograms: its memory does not
// grow with the run. Knows nothing of files or of the clock.
class Report {
 public:
  void add(const StepStats& step);
  void add(const RequestStats& request);

  Summary summary(const RunTimes& times) const;

 private:
  void span(double begin, double end);

  Summary totals_ = {};  // the counts, sums and peaks; what is derived from them is not set
  Histogram queue_ = {}, ttft_ = {}, tpot_ = {}, itl_ = {}, e2e_ = {};
  bool spanned_ = false;
  double begin_ = 0, end_ = 0;
  int64_t running_ = 0;
  double positions_total_ = 0, positions_leased_ = 0, tokens_held_ = 0, contiguous_ = 0;
};

}  // namespace pagedinfer
