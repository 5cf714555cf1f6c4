// Seeded workloads: how long prompts and completions are, what prompts share and when requests
// arrive. Every number is a function of the seed and of its place (request, purpose), so a workload
// of more requests begins with those of a smaller one, and is the same bytes on every machine.
// Knows nothing of models, files or time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/numbers.h"
#include "core/request.h"
#include "workload/trace.h"

namespace pagedinfer {

// The shape of a workload: a row of the table, or a row that flags have changed.
struct WorkloadShape {
  std::string_view name = "";
  std::string_view help = "";  // a sentence
  int requests = 1;
  // Numbers of tokens, all equally likely.
  IntegerRange prompt = {16, 512};  // without the head
  IntegerRange output = {16, 256};
  // Requests per second, as a Poisson process whose first request arrives at 0; 0: all at once.
  // Below 0: as fast as the trace.
  double rate = 0;
  // Each prompt begins with one of `heads` texts, which have `head_tokens` tokens each.
  int heads = 0, head_tokens = 512;
  // Among each `long_every` requests one, at a random place, has a long prompt; 0: none has.
  int long_every = 0;
  IntegerRange long_prompt = {2048, 2048}, long_output = {16, 32};
  bool from_trace = false;  // a file gives the lengths and arrivals
  int max_batch_size = 0;   // of the run, unless it is given; 0: the default of a run
};

inline constexpr WorkloadShape kWorkloads[] = {
    {.name = "baseline",
     .help = "One request after the other.",
     .requests = 16,
     .prompt = {64, 512},
     .output = {64, 128},
     .max_batch_size = 1},
    {.name = "continuous_batching",
     .help = "Requests of mixed lengths that arrive at random.",
     .requests = 32,
     .prompt = {64, 512},
     .output = {64, 256},
     .rate = 4},
    {.name = "paged_attention",
     .help = "Many requests at once, which a cache of reservations cannot hold.",
     .requests = 48,
     .prompt = {128, 384},
     .output = {128, 256}},
    {.name = "chunked_prefill",
     .help = "Short prompts with long answers, and among them long prompts.",
     .requests = 64,
     .prompt = {16, 64},
     .output = {128, 256},
     .rate = 4,
     .long_every = 4},
    {.name = "prefix_caching",
     .help = "Prompts that begin with the same tokens.",
     .requests = 64,
     .prompt = {16, 64},
     .output = {32, 64},
     .heads = 1},
    {.name = "trace",
     .help = "Lengths and arrivals of a CSV file.",
     .requests = 200,
     .rate = -1,
     .from_trace = true},
    {.name = "random", .help = "Any lengths.", .requests = 64},
};

// The row of a name, or null.
const WorkloadShape* find_workload(std::string_view name);

struct WorkloadRequest {
  int prompt_tokens = 0, output_tokens = 0;
  int head = 0;        // which one its prompt begins with, where there are heads
  double arrival = 0;  // at a mean rate of one request per second; never decreases
};

struct BenchWorkload {
  WorkloadShape shape = {};
  uint64_t seed = 0;
  std::vector<WorkloadRequest> requests = {};
  int num_clipped = 0;  // requests whose prompts or outputs were shortened to fit
};

// Draws the requests. If prompt and output exceed `max_model_len`, the output is clipped first, so
// that at least one token is left for the prompt, and then the prompt is clipped. `trace` has the
// rows for a shape with from_trace. A rate below 0 becomes the rate of the rows.
// REQUIRES: max_model_len >= 2; the ranges are not empty; a trace has as many rows as the shape has
// requests.
BenchWorkload make_workload(const WorkloadShape& shape, uint64_t seed, int max_model_len,
                            std::span<const TraceRow> trace = {});

// The prompt of a request: random ones of the `ordinary` token ids. REQUIRES: there are some.
std::vector<TokenId> prompt_of(const BenchWorkload& workload, int request,
                               std::span<const TokenId> ordinary);

// Appends a request as a line that `pagedinfer run` accepts. It arrives by `rate`, in requests per
// second; 0: it has no arrival.
void append_workload_line(std::string& out, const BenchWorkload& workload, int request, double rate,
                          std::span<const TokenId> ordinary);

}  // namespace pagedinfer
