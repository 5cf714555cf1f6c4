#include "stats/report.h"

#include <algorithm>

#include "stats/statistics.h"

namespace pagedinfer {

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
  span(step.begin, step.end);
  ++totals_.steps;
  for (const StepStatistic& row : step_statistics()) row.add(step, totals_.sum, totals_.peak);
}

void Report::add(const RequestStats& request) {
  Summary& t = totals_;
  t.recomputed_tokens += request.recomputed_tokens;
  if (request.failed()) {
    ++t.failed;
    ++t.failed_by_code[request.error_code];
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
  s.queue = spread_of(queue_);
  s.ttft = spread_of(ttft_);
  s.tpot = spread_of(tpot_);
  s.itl = spread_of(itl_);
  s.e2e = spread_of(e2e_);
  s.times = times;
  return s;
}

}  // namespace pagedinfer
