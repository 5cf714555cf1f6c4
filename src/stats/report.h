#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stats/histogram.h"
#include "stats/run_stats.h"

namespace pagedinfer {

// The distribution of a time, in seconds. REQUIRES of readers: count > 0.
struct Spread {
  int64_t count = 0;
  double mean = 0, deviation = 0, p50 = 0, p90 = 0, p99 = 0, max = 0;
};
Spread spread_of(const Histogram& histogram);

inline double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// Latencies of one request in seconds, from the moment its line was read. REQUIRES: the request
// completed.
double queue_time(const RequestStats& request);  // until its admission
double time_to_first_token(const RequestStats& request);
double end_to_end_latency(const RequestStats& request);
// The times between successive tokens; empty for a completion of one token.
std::vector<double> inter_token_latencies(const RequestStats& request);
// The mean of inter_token_latencies(). REQUIRES: it is not empty.
double time_per_output_token(const RequestStats& request);

// Seconds spent outside steps. Reading and tokenizing run beside the engine, so the parts need not
// add up to the total.
struct RunTimes {
  double load = 0;
  double tokenize = 0;  // parsing and tokenizing, summed over the threads
  double output = 0;
  double total = 0;  // from the start of the program to its end
};

// The totals of a run. Failed requests count only in `failed`, `failed_by_code`, `preemptions` and
// `recomputed_tokens`.
struct Summary {
  int64_t completed = 0, failed = 0;
  int64_t resumed = 0;  // records kept from an earlier run; they count nowhere else
  std::map<std::string, int64_t> failed_by_code = {};
  int64_t input_tokens = 0, output_tokens = 0;
  int64_t preemptions = 0, recomputed_tokens = 0;
  int64_t cached_tokens = 0;   // prompt tokens that were in the cache when they were first needed
  int64_t found_tokens = 0;    // all tokens that were found, after preemptions too
  int64_t evicted_blocks = 0;  // of the prefix cache
  int64_t kv_copies = 0;       // of blocks, or of reservations, for sequences that shared them
  int64_t leaked_blocks = 0;   // that no sequence held and that an audit has freed

  // Seconds from the start (the first step began or the first completed request was read, whichever
  // is earlier) to the end of the last step or request.
  double duration = 0;
  // Requests, input tokens, output tokens, and both kinds of tokens per second of `duration`.
  double request_throughput = 0, input_throughput = 0, output_throughput = 0;
  double total_throughput = 0;

  Spread queue = {}, ttft = {}, e2e = {};  // over completed requests
  Spread itl = {};                         // over all times between their tokens
  Spread tpot = {};                        // over completed requests with at least two tokens

  int64_t steps = 0, step_tokens = 0, prefill_tokens = 0, decode_tokens = 0;
  int64_t peak_running = 0;
  double mean_running = 0;  // per step

  // A mean ratio is the sum of the numerators over the sum of the denominators of all steps.
  double kv_use_peak = 0, kv_use_mean = 0;  // positions leased / positions of the pool
  double slot_utilization = 0;              // tokens held / positions leased
  double internal_fragmentation = 0;        // 1 - slot_utilization
  double contiguous_ratio = 0;  // positions of max-length reservations / positions leased
  int64_t positions_total = 0, positions_leased_peak = 0, positions_contiguous_peak = 0;
  int64_t tokens_held_peak = 0, tokens_served_peak = 0, positions_saved_peak = 0;

  // host = plan + commit, device = stage + forward + sample, summed over the steps.
  double load = 0, tokenize = 0, device = 0, host = 0, output = 0, total = 0;
};

// Adds up steps and requests as they come. Keeps sums and histograms only, so its memory does not
// grow with the run. Knows nothing of files or of the clock.
class Report {
 public:
  void add(const StepStats& step);
  void add(const RequestStats& request);

  Summary summary(const RunTimes& times) const;

 private:
  // Extends [begin_, end_] to cover [begin, end].
  void span(double begin, double end);

  Summary totals_ = {};  // counts, sums and peaks; summary() computes the rest
  Histogram queue_ = {}, ttft_ = {}, tpot_ = {}, itl_ = {}, e2e_ = {};
  bool spanned_ = false;
  double begin_ = 0, end_ = 0;
  int64_t running_ = 0;
  double positions_total_ = 0, positions_leased_ = 0, tokens_held_ = 0, contiguous_ = 0;
};

}  // namespace pagedinfer
