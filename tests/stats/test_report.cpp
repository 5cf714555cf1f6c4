#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "stats/report.h"
#include "stats/statistics.h"
#include "stats/table.h"

namespace pagedinfer {
namespace {

RequestStats request_at(double read, double admitted, std::vector<double> token_times) {
  RequestStats request;
  request.head.arrived = read;
  request.admitted = admitted;
  request.first_token = token_times.front();
  request.finished = token_times.back();
  request.completion_tokens = static_cast<int>(token_times.size());
  request.token_times = {std::move(token_times)};
  return request;
}

StepStats step_at(double begin, double end) {
  StepStats step;
  step.begin = begin;
  step.end = end;
  return step;
}

double number(const Summary& summary, std::string_view name) {
  for (const Statistic<Summary>& row : summary_statistics()) {
    if (row.name == name) return number_of(row.get(summary));
  }
  FAIL("no such row");
  return 0;
}

// A histogram's percentiles are within 0.5 %.
doctest::Approx near(double value) { return doctest::Approx(value).epsilon(0.0051); }

TEST_CASE("stats: a small run gives the numbers worked out by hand") {
  Report report;
  RequestStats first = request_at(1, 2, {3, 4, 6});  // gaps 1, 2
  first.prompt_tokens = 10;
  RequestStats second = request_at(2, 4, {6});  // no gap
  second.prompt_tokens = 20;
  second.recomputed_tokens = 5;
  RequestStats refused;
  refused.error_code = "invalid_json";
  refused.prompt_tokens = 1000;
  report.add(first);
  report.add(second);
  report.add(refused);

  StepStats step = step_at(2, 5);
  step.num_tokens = 31, step.num_prefill_tokens = 30, step.num_decodes = 1;
  step.running = 2, step.preempted = 1;
  step.pool.positions_total = 100, step.pool.positions_leased = 40;
  step.cache.tokens_held = 30, step.cache.positions_contiguous = 128;
  step.times = {.plan = 1, .stage = 2, .forward = 4, .sample = 8, .commit = 16};
  report.add(step);
  step.begin = 5, step.end = 11;
  step.num_tokens = 1, step.num_prefill_tokens = 0;
  step.running = 1, step.preempted = 0;
  step.pool.positions_leased = 10, step.cache.tokens_held = 10,
  step.cache.positions_contiguous = 64;
  report.add(step);

  const RunTimes times = {.load = 0.5, .tokenize = 0.25, .output = 0.125, .total = 12};
  const Summary s = report.summary(times);
  CHECK(s.completed == 2);
  CHECK(s.failed == 1);
  CHECK(s.failed_by_code.at("invalid_json") == 1);
  CHECK(s.input_tokens == 30);
  CHECK(s.output_tokens == 4);
  CHECK(s.recomputed_tokens == 5);
  CHECK(s.duration == 10);

  CHECK(s.queue.mean == doctest::Approx(1.5));  // 1, 2
  CHECK(s.ttft.mean == doctest::Approx(3));     // 2, 4
  CHECK(s.ttft.p50 == near(2));
  CHECK(s.ttft.p90 == near(4));
  CHECK(s.e2e.mean == doctest::Approx(4.5));  // 5, 4
  CHECK(s.e2e.p50 == near(4));
  CHECK(s.e2e.max == 5);
  CHECK(s.itl.mean == doctest::Approx(1.5));
  CHECK(s.itl.p50 == near(1));
  CHECK(s.itl.p99 == near(2));
  CHECK(s.tpot.mean == doctest::Approx(1.5));  // of the first alone
  CHECK(s.tpot.p99 == near(1.5));

  const std::pair<const char*, double> expected[] = {{"preemptions", 1},
                                                     {"request_throughput", 0.2},
                                                     {"input_throughput", 3},
                                                     {"output_throughput", 0.4},
                                                     {"total_token_throughput", 3.4},
                                                     {"steps", 2},
                                                     {"step_tokens", 32},
                                                     {"step_tokens_mean", 16},
                                                     {"prefill_tokens", 30},
                                                     {"decode_tokens", 2},
                                                     {"running_peak", 2},
                                                     {"running_mean", 1.5},
                                                     {"kv_use_peak", 0.4},
                                                     {"kv_use_mean", 0.25},
                                                     {"kv_slot_utilization", 0.8},
                                                     {"kv_internal_fragmentation", 0.2},
                                                     {"kv_contiguous_ratio", 192.0 / 50},
                                                     {"kv_positions_total", 100},
                                                     {"kv_positions_leased_peak", 40},
                                                     {"kv_contiguous_positions_peak", 128},
                                                     {"kv_tokens_held_peak", 30},
                                                     {"time_host_s", 34},
                                                     {"time_device_s", 28}};
  for (const auto& [name, value] : expected) {
    CAPTURE(name);
    CHECK(number(s, name) == doctest::Approx(value));
  }
  CHECK(s.times.load == 0.5);
  CHECK(s.times.tokenize == 0.25);
  CHECK(s.times.output == 0.125);
  CHECK(s.times.total == 12);
}

TEST_CASE("stats: a run without requests or steps divides by nothing") {
  const Summary s = Report().summary({});
  CHECK(s.duration == 0);
  for (const Statistic<Summary>& row : summary_statistics()) {
    CAPTURE(row.name);
    CHECK(number(s, row.name) == 0);
  }
  CHECK(s.ttft.p99 == 0);
}

TEST_CASE("stats: the order in which records come does not matter") {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> gap(0.001, 2);
  std::vector<RequestStats> requests;
  for (int i = 0; i < 200; ++i) {
    const double read = gap(random);
    std::vector<double> times = {read + gap(random)};
    while (gap(random) < 1.9) times.push_back(times.back() + gap(random));
    requests.push_back(request_at(read, read, std::move(times)));
  }
  Report forward, backward;
  for (const RequestStats& request : requests) forward.add(request);
  std::reverse(requests.begin(), requests.end());
  for (const RequestStats& request : requests) backward.add(request);
  const Summary a = forward.summary({}), b = backward.summary({});
  CHECK(a.duration == b.duration);
  CHECK(a.itl.p99 == b.itl.p99);
  CHECK(a.tpot.p50 == b.tpot.p50);
  CHECK(a.e2e.max == b.e2e.max);
  CHECK(a.output_tokens == b.output_tokens);
}

TEST_CASE("stats: the gaps of a request add up to the time between first and last token") {
  const RequestStats request = request_at(0, 1, {2, 2.5, 4, 8});
  CHECK(inter_token_latencies(request) == std::vector<double>{0.5, 1.5, 4});
  CHECK(queue_time(request) == 1);
  CHECK(time_to_first_token(request) == 2);
  CHECK(end_to_end_latency(request) == 8);
}

}  // namespace
}  // namespace pagedinfer
