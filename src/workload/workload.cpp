#include "workload/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/check.h"
#include "core/double_math.h"
#include "core/json.h"
#include "core/philox.h"

namespace pagedinfer {
namespace {

// The purpose of a random number. Numbers of different purposes are independent.
enum class Purpose : uint32_t { kPrompt, kOutput, kGap, kHead, kLong, kTokens, kHeadTokens };

// 128 random bits. `what` is the request or the head, `at` the place in it.
std::array<uint32_t, 4> bits_of(uint64_t seed, Purpose purpose, uint32_t what, uint32_t at) {
  return philox({what, at, static_cast<uint32_t>(purpose), 0},
                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

// Maps 32 random bits to a number in [0, count). The probabilities of two numbers differ by at most
// a factor of 1 + count / 2^32.
uint32_t below(uint32_t bits, uint32_t count) {
  return static_cast<uint32_t>((uint64_t{bits} * count) >> 32);
}

int draw_length(uint64_t seed, Purpose purpose, int request, IntegerRange range) {
  const uint32_t bits = bits_of(seed, purpose, static_cast<uint32_t>(request), 0)[0];
  const uint32_t count = static_cast<uint32_t>(range.to - range.from) + 1;
  return static_cast<int>(range.from + below(bits, count));
}

// An exponential time of mean 1.
double draw_gap(uint64_t seed, int request) {
  const auto bits = bits_of(seed, Purpose::kGap, static_cast<uint32_t>(request), 0);
  const uint64_t high = (uint64_t{bits[0]} << 32 | bits[1]) >> 11;
  return -log_double(1.0 - static_cast<double>(high) * 0x1p-53);
}

// Among each `every` requests in a row one is long.
bool is_long(uint64_t seed, int request, int every) {
  if (every == 0) return false;
  const auto group = static_cast<uint32_t>(request / every);
  const uint32_t bits = bits_of(seed, Purpose::kLong, group, 0)[0];
  return below(bits, static_cast<uint32_t>(every)) == static_cast<uint32_t>(request % every);
}

WorkloadRequest draw_request(const WorkloadShape& shape, uint64_t seed, int request) {
  const bool has_long_prompt = is_long(seed, request, shape.long_every);
  const IntegerRange& prompt = has_long_prompt ? shape.long_prompt : shape.prompt;
  const IntegerRange& output = has_long_prompt ? shape.long_output : shape.output;
  WorkloadRequest drawn = {.prompt_tokens = draw_length(seed, Purpose::kPrompt, request, prompt),
                           .output_tokens = draw_length(seed, Purpose::kOutput, request, output)};
  if (shape.heads > 0) {
    drawn.head = draw_length(seed, Purpose::kHead, request, {0, shape.heads - 1});
    drawn.prompt_tokens += shape.head_tokens;
  }
  return drawn;
}

bool clip(WorkloadRequest& request, int max_model_len) {
  const WorkloadRequest wanted = request;
  request.output_tokens = std::min(request.output_tokens, max_model_len - 1);
  request.prompt_tokens = std::min(request.prompt_tokens, max_model_len - request.output_tokens);
  return request.prompt_tokens < wanted.prompt_tokens ||
         request.output_tokens < wanted.output_tokens;
}

double mean_gap(std::span<const TraceRow> rows) {
  if (rows.size() < 2) return 0;
  return (rows.back().time - rows.front().time) / static_cast<double>(rows.size() - 1);
}

}  // namespace

const WorkloadShape* find_workload(std::string_view name) {
  const auto* const found = std::ranges::find(kWorkloads, name, &WorkloadShape::name);
  return found == std::end(kWorkloads) ? nullptr : found;
}

BenchWorkload make_workload(const WorkloadShape& shape, uint64_t seed, int max_model_len,
                            std::span<const TraceRow> trace) {
  BenchWorkload workload = {.shape = shape, .seed = seed};
  const auto count = static_cast<size_t>(shape.requests);
  CHECK(!shape.from_trace || trace.size() >= count);
  const std::span<const TraceRow> rows = shape.from_trace ? trace.first(count) : trace;
  const double gap = mean_gap(rows);
  if (shape.rate < 0) workload.shape.rate = gap > 0 ? 1 / gap : 0;
  double now = 0;
  for (int i = 0; i < shape.requests; ++i) {
    WorkloadRequest request;
    if (shape.from_trace) {
      const TraceRow& row = rows[static_cast<size_t>(i)];
      request = {.prompt_tokens = row.prompt_tokens, .output_tokens = row.output_tokens};
      request.arrival = gap > 0 ? (row.time - rows.front().time) / gap : 0;
    } else {
      request = draw_request(shape, seed, i);
      if (i > 0) now += draw_gap(seed, i);
      request.arrival = now;
    }
    if (clip(request, max_model_len)) ++workload.num_clipped;
    workload.requests.push_back(request);
  }
  return workload;
}

std::vector<TokenId> prompt_of(const BenchWorkload& workload, int request,
                               std::span<const TokenId> ordinary) {
  const WorkloadRequest& drawn = workload.requests[static_cast<size_t>(request)];
  const int head_tokens = workload.shape.heads > 0 ? workload.shape.head_tokens : 0;
  std::vector<TokenId> prompt;
  prompt.reserve(static_cast<size_t>(drawn.prompt_tokens));
  for (int i = 0; i < drawn.prompt_tokens; ++i) {
    const bool in_head = i < head_tokens;
    const auto bits =
        bits_of(workload.seed, in_head ? Purpose::kHeadTokens : Purpose::kTokens,
                static_cast<uint32_t>(in_head ? drawn.head : request), static_cast<uint32_t>(i));
    prompt.push_back(ordinary[below(bits[0], static_cast<uint32_t>(ordinary.size()))]);
  }
  return prompt;
}

void append_workload_line(std::string& out, const BenchWorkload& workload, int request, double rate,
                          std::span<const TokenId> ordinary) {
  const WorkloadRequest& drawn = workload.requests[static_cast<size_t>(request)];
  JsonWriter json(out);
  json.begin_object()
      .field("id", fmt::format("{}-{}", workload.shape.name, request))
      .field("prompt_token_ids", prompt_of(workload, request, ordinary))
      .field("max_tokens", drawn.output_tokens)
      .field("ignore_eos", true);
  // A microsecond is more than any clock of a run resolves.
  if (rate > 0) json.field("arrival_s", std::round(drawn.arrival / rate * 1e6) / 1e6);
  json.end_object();
  out += '\n';
}

}  // namespace pagedinfer
