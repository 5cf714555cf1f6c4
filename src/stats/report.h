#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stats/histogram.h"
#include "stats/run_stats.h"

namespace pagedinfer {

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

// The totals of a run. Failed requests count only in `failed`, `failed_by_code` and
// `recomputed_tokens`.
struct Summary {
  int64_t completed = 0, failed = 0;
  int64_t resumed = 0;  // records kept from an earlier run; they count nowhere else
  std::map<ErrorCode, int64_t> failed_by_code = {};
  int64_t input_tokens = 0, output_tokens = 0;
  int64_t cached_tokens = 0;  // prompt tokens that were in the cache when they were first needed
  int64_t recomputed_tokens = 0;
  int64_t kv_bytes_per_position = 0;

  // Seconds from the start (the first step began or the first completed request was read, whichever
  // is earlier) to the end of the last step or request.
  double duration = 0;
  RunTimes times = {};

  Spread queue = {}, ttft = {}, e2e = {};  // over completed requests
  Spread itl = {};                         // over all times between their tokens
  Spread tpot = {};                        // over completed requests with at least two tokens

  int64_t steps = 0;
  StepStats sum = {}, peak = {};  // of each number over the steps

  double per_second(int64_t count) const { return ratio(static_cast<double>(count), duration); }
  // A mean share is the sum of the parts over the sum of the wholes.
  double slot_utilization() const {
    return ratio(static_cast<double>(sum.cache.tokens_held),
                 static_cast<double>(sum.pool.positions_leased));
  }
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
};

}  // namespace pagedinfer
