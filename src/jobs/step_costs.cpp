#include "jobs/step_costs.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/check.h"

namespace pagedinfer {
namespace {

// The sum of min(i, window) for i from 1 to n.
double keys_up_to(double n, double window) {
  if (window == 0 || n <= window) return n * (n + 1) / 2;
  return window * (window + 1) / 2 + (n - window) * window;
}

double on_line(const StepCosts::Point& a, const StepCosts::Point& b, double tokens) {
  const double slope = (b.seconds - a.seconds) / (b.tokens - a.tokens);
  return a.seconds + slope * (tokens - a.tokens);
}

// Before the first point: as at it. A step of a few tokens reads all weights.
double on_points(const std::vector<StepCosts::Point>& points, int tokens) {
  const auto after = std::ranges::lower_bound(points, tokens, {}, &StepCosts::Point::tokens);
  if (after == points.begin()) return after->seconds;
  if (after != points.end()) return on_line(*(after - 1), *after, tokens);
  if (points.size() == 1) return points.back().seconds;
  const double ahead = on_line(points[points.size() - 2], points.back(), tokens);
  return std::max(ahead, points.back().seconds);
}

// Measures steps and keeps an eye on the time.
class Calibration {
 public:
  Calibration(const ProbedRun& run, const AttendedKeys& keys,
              const std::function<double(const ProbedStep&)>& probe)
      : run_(run), keys_(keys), probe_(probe) {}

  StepCosts measure();

 private:
  double seconds_of(const ProbedStep& step);
  int context_of(int count) const { return std::min(run_.context, run_.max_model_len - count); }
  double key_cost(ProbedStep step);
  ProbedStep prompts_of(int tokens) const;
  std::vector<StepCosts::Point> points(const std::vector<int>& sizes, int min_tokens,
                                       double per_key, double until,
                                       const std::function<ProbedStep(int)>& step_of);

  const ProbedRun& run_;
  const AttendedKeys& keys_;
  const std::function<double(const ProbedStep&)>& probe_;
  double spent_ = 0;
};

// The median of several, but for steps that take long. The first one may wait for memory that is
// touched for the first time.
double Calibration::seconds_of(const ProbedStep& step) {
  constexpr double kLong = 0.4, kEnough = 0.06;
  constexpr int kMaxTimes = 5;
  double sum = probe_(step);
  if (sum > kLong) {
    spent_ += sum;
    return sum;
  }
  std::vector<double> times;
  while (times.empty() || (sum < kEnough && std::ssize(times) < kMaxTimes)) {
    times.push_back(probe_(step));
    sum += times.back();
  }
  spent_ += sum;
  std::ranges::sort(times);
  return times[times.size() / 2];
}

// What a step costs more behind a long context than behind none, for each key.
double Calibration::key_cost(ProbedStep step) {
  constexpr int kLongContext = 2048, kMinDifference = 64;
  const double before = keys_.of(0, step.count);
  ProbedStep longer = step;
  longer.context = std::min(kLongContext, run_.max_model_len - step.count);
  const double difference = keys_.of(longer.context, step.count) - before;
  if (difference < kMinDifference * step.count) return 0;
  const double more = seconds_of(longer) - seconds_of(step);
  return std::max(0.0, more / (difference * step.sequences));
}

// A step of so many tokens of usual prompts.
ProbedStep Calibration::prompts_of(int tokens) const {
  const int least = (tokens + run_.max_sequences - 1) / run_.max_sequences;
  const int count = std::min({std::max(run_.prompt, least), tokens, run_.max_model_len - 1});
  return {.sequences = std::clamp(tokens / count, 1, run_.max_sequences),
          .count = count,
          .context = std::min(run_.found, run_.max_model_len - count)};
}

// Steps of ascending sizes, until `until` seconds are spent.
std::vector<StepCosts::Point> Calibration::points(const std::vector<int>& sizes, int min_tokens,
                                                  double per_key, double until,
                                                  const std::function<ProbedStep(int)>& step_of) {
  std::map<int, double> seconds;
  for (const int size : sizes) {
    if (spent_ > until && seconds.size() >= 2 && seconds.rbegin()->first >= min_tokens) break;
    const ProbedStep step = step_of(size);
    const double keys = step.sequences * keys_.of(step.context, step.count);
    const double rest = seconds_of(step) - per_key * keys;
    seconds[step.sequences * step.count] = std::max(0.0, rest);
  }
  std::vector<StepCosts::Point> points;
  for (const auto& [tokens, time] : seconds) {
    // More tokens never take less time, whatever noise says.
    const double least = points.empty() ? 0 : points.back().seconds;
    points.push_back({tokens, std::max(time, least)});
  }
  return points;
}

StepCosts Calibration::measure() {
  constexpr int kSequences = 8, kMinPrompt = 64, kMaxChunk = 128;
  probe_({});  // reads the weights
  const int few = std::min(kSequences, run_.max_decodes);
  const double per_decode_key = key_cost({.sequences = few});
  const int chunk = std::clamp(run_.prompt, 1, std::min(kMaxChunk, run_.max_tokens));
  const double per_prefill_key = key_cost({.count = chunk});

  std::vector<int> batches, steps;
  for (int size = 1; size < run_.max_decodes; size *= 2) batches.push_back(size);
  batches.push_back(run_.max_decodes);
  for (int size = 4; size < run_.max_tokens; size *= 4) steps.push_back(size);
  steps.push_back(run_.max_tokens);

  const double half = spent_ + (run_.max_seconds - spent_) / 2;
  std::vector<StepCosts::Point> prefills =
      points(steps, kMinPrompt, per_prefill_key, half, [&](int size) { return prompts_of(size); });
  std::vector<StepCosts::Point> decodes =
      points(batches, 1, per_decode_key, run_.max_seconds,
             [&](int size) { return ProbedStep{.sequences = size, .context = context_of(1)}; });
  return {std::move(decodes), std::move(prefills), per_decode_key, per_prefill_key};
}

}  // namespace

AttendedKeys::AttendedKeys(const ModelSpec& spec) {
  std::map<int, int> layers;
  for (const LayerSpec& layer : spec.layers) ++layers[layer.window];
  for (const auto& [window, count] : layers) {
    windows_.push_back(
        {window, static_cast<double>(count) / static_cast<double>(spec.layers.size())});
  }
}

double AttendedKeys::of(int start, int count) const {
  double sum = 0;
  for (const Window& window : windows_) {
    const double keys = keys_up_to(start + count, window.keys) - keys_up_to(start, window.keys);
    sum += window.share * keys;
  }
  return sum;
}

double StepCosts::decode_seconds(int tokens) const {
  const Point& last = decodes_.back();
  if (tokens <= last.tokens) return on_points(decodes_, tokens);
  return last.seconds + on_points(prefills_, tokens) - on_points(prefills_, last.tokens);
}

double StepCosts::seconds(const StepShape& shape) const {
  CHECK(!decodes_.empty() && !prefills_.empty());
  const double keys = shape.decode_keys * per_decode_key_ + shape.prefill_keys * per_prefill_key_;
  if (shape.decodes == 0) return on_points(prefills_, shape.prefill_tokens) + keys;
  const double more = on_points(prefills_, shape.decodes + shape.prefill_tokens) -
                      on_points(prefills_, shape.decodes);
  return decode_seconds(shape.decodes) + more + keys;
}

StepCosts calibrate(const ProbedRun& run, const AttendedKeys& keys,
                    const std::function<double(const ProbedStep&)>& probe) {
  return Calibration(run, keys, probe).measure();
}

}  // namespace pagedinfer
