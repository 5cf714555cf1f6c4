#include "stats/report.h"

#include <algorithm>

namespace pagedinfer {

Spread spread_of(const Histogram& histogram) {
  return {.count = histogram.count(),
          .mean = histogram.mean(),
          .deviation = histogram.deviation(),
          .p50 = histogram.percentile(50),
          .p90 = histogram.percentile(90),
          .p99 = histogram.percentile(99),
          .max = histogram.max()};
}

double queue_time(const RequestStats& request) { return request.admitted - request.head.arrived; }

double time_to_first_token(const RequestStats& request) {
  return request.first_token - request.head.arrived;
}

double end_to_end_latency(const RequestStats& request) {
  return request.finished - request.head.arrived;
}

std::vector<double> inter_token_latencies(const RequestStats& request) {
  std::vector<double> gaps;
  for (const std::vector<double>& times : request.token_times) {
    for (size_t i = 1; i < times.size(); ++i) gaps.push_back(times[i] - times[i - 1]);
  }
  return gaps;
}

double time_per_output_token(const RequestStats& request) {
  double first_to_last = 0;
  size_t num_gaps = 0;
  for (const std::vector<double>& times : request.token_times) {
    first_to_last += times.back() - times.front();
    num_gaps += times.size() - 1;
  }
  return first_to_last / static_cast<double>(num_gaps);
}

void Report::span(double begin, double end) {
  begin_ = spanned_ ? std::min(begin_, begin) : begin;
  end_ = spanned_ ? std::max(end_, end) : end;
  spanned_ = true;
}

void Report::add(const StepStats& step) {
  Summary& t = totals_;
  span(step.begin, step.end);
  ++t.steps;
  t.step_tokens += step.num_tokens;
  t.prefill_tokens += step.num_prefill_tokens;
  t.decode_tokens += step.num_decodes;
  t.preemptions += step.preempted;
  t.peak_running = std::max(t.peak_running, step.running);
  running_ += step.running;

  const auto leased = static_cast<double>(step.pool.positions_leased);
  const auto total = static_cast<double>(step.pool.positions_total);
  t.kv_use_peak = std::max(t.kv_use_peak, ratio(leased, total));
  t.positions_total = std::max(t.positions_total, step.pool.positions_total);
  t.positions_leased_peak = std::max(t.positions_leased_peak, step.pool.positions_leased);
  t.positions_contiguous_peak =
      std::max(t.positions_contiguous_peak, step.cache.positions_contiguous);
  t.tokens_held_peak = std::max(t.tokens_held_peak, step.cache.tokens_held);
  t.tokens_served_peak = std::max(t.tokens_served_peak, step.cache.tokens_served);
  t.positions_saved_peak = std::max(t.positions_saved_peak, step.pool.positions_saved);
  t.found_tokens += step.tokens_found;
  t.kv_copies += step.num_copies;
  t.evicted_blocks = std::max(t.evicted_blocks, step.pool.num_evicted);
  positions_total_ += total;
  positions_leased_ += leased;
  tokens_held_ += static_cast<double>(step.cache.tokens_held);
  contiguous_ += static_cast<double>(step.cache.positions_contiguous);

  t.host += step.times.plan + step.times.commit;
  t.device += step.times.stage + step.times.forward + step.times.sample;
}

void Report::add(const RequestStats& request) {
  Summary& t = totals_;
  t.recomputed_tokens += request.recomputed_tokens;
  if (request.failed()) {
    ++t.failed;
    ++t.failed_by_code[std::string(request.error_code.name())];
    return;
  }
  span(request.head.arrived, request.finished);
  ++t.completed;
  t.input_tokens += request.prompt_tokens;
  t.cached_tokens += request.cached_tokens;
  t.output_tokens += request.completion_tokens;

  queue_.add(queue_time(request));
  ttft_.add(time_to_first_token(request));
  e2e_.add(end_to_end_latency(request));
  const std::vector<double> gaps = inter_token_latencies(request);
  for (const double gap : gaps) itl_.add(gap);
  if (!gaps.empty()) tpot_.add(time_per_output_token(request));
}

Summary Report::summary(const RunTimes& times) const {
  Summary s = totals_;
  s.duration = end_ - begin_;
  s.request_throughput = ratio(static_cast<double>(s.completed), s.duration);
  s.input_throughput = ratio(static_cast<double>(s.input_tokens), s.duration);
  s.output_throughput = ratio(static_cast<double>(s.output_tokens), s.duration);
  s.total_throughput = s.input_throughput + s.output_throughput;
  s.queue = spread_of(queue_);
  s.ttft = spread_of(ttft_);
  s.tpot = spread_of(tpot_);
  s.itl = spread_of(itl_);
  s.e2e = spread_of(e2e_);
  s.mean_running = ratio(static_cast<double>(running_), static_cast<double>(s.steps));
  s.kv_use_mean = ratio(positions_leased_, positions_total_);
  s.slot_utilization = ratio(tokens_held_, positions_leased_);
  s.internal_fragmentation = positions_leased_ > 0 ? 1 - s.slot_utilization : 0;
  s.contiguous_ratio = ratio(contiguous_, positions_leased_);
  s.load = times.load;
  s.tokenize = times.tokenize;
  s.output = times.output;
  s.total = times.total;
  return s;
}

}  // namespace pagedinfer
