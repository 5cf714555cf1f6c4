#include "stats/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/refusal.h"
#include "stats/table.h"

namespace pagedinfer {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr double kPlainSeconds = 5, kRarestSeconds = 600;
constexpr size_t kPlainColumns = 80;

// Two significant digits: an estimate with more would change with every line.
int64_t roughly(int64_t number) {
  int64_t unit = 1;
  while (number / unit >= 100) unit *= 10;
  return (number + unit / 2) / unit * unit;
}

// "8 %  904/10,800"
std::string done_of(const ProgressState& state) {
  const int64_t done = state.resumed + state.done;
  if (!state.total) return grouped(done);
  const bool about = state.total_is_estimate;
  const int64_t all = state.resumed + *state.total;
  const int64_t total = about ? std::max(done, roughly(all)) : all;
  const int64_t percent = total > 0 ? 100 * done / total : 100;
  return fmt::format("{} %  {}/{}{}", percent, grouped(done), about ? "~" : "", grouped(total));
}

// The mean number of tokens that a request draws, by the estimator of Kaplan and Meier: a request
// in progress says that it draws no fewer than it has so far.
double mean_drawn(const ProgressState& state) {
  std::vector<int64_t> so_far = state.drawn;
  std::ranges::sort(so_far);
  auto passed = so_far.begin();  // before it are requests that say nothing of larger numbers
  int64_t num_done = 0, last = 0;
  double share = 1, mean = 0;  // share: of the requests, that draw more than `last`
  for (const auto& [drawn, count] : state.done_by_drawn) {
    passed = std::lower_bound(passed, so_far.end(), drawn);
    const int64_t num_left = state.done - num_done + (so_far.end() - passed);
    mean += share * static_cast<double>(drawn - last);
    share *= static_cast<double>(num_left - count) / static_cast<double>(num_left);
    num_done += count;
    last = drawn;
  }
  return passed == so_far.end() ? mean : mean + share * static_cast<double>(so_far.back() - last);
}

// The tokens that the run still computes. REQUIRES: a request is done.
double tokens_left(const ProgressState& state, double total) {
  const auto begun = static_cast<double>(state.done + std::ssize(state.drawn));
  const auto decoded = static_cast<double>(state.decoded_tokens);
  double drawn = 0;
  for (const auto& [each, count] : state.done_by_drawn) drawn += static_cast<double>(each * count);
  for (const int64_t each : state.drawn) drawn += static_cast<double>(each);
  const double outputs = std::max(0.0, total * mean_drawn(state) - drawn);
  const double prompts = std::max(0.0, total - begun) / begun;
  return prompts * (static_cast<double>(state.computed_tokens) - decoded) +
         (drawn > 0 ? outputs * decoded / drawn : 0);
}

}  // namespace

std::optional<double> TimeLeft::seconds(const ProgressState& state) {
  constexpr size_t kHistory = 256;
  if (samples_.size() == kHistory) {  // keeps every second one
    for (size_t i = 1; 2 * i < kHistory; ++i) samples_[i] = samples_[2 * i];
    samples_.resize(kHistory / 2);
  }
  samples_.push_back({state.elapsed, state.computed_tokens});
  if (!state.total || state.done == 0) return std::nullopt;
  const auto quarter = std::ranges::lower_bound(samples_, state.elapsed / 4, {}, &Sample::elapsed);
  const Sample from = quarter->elapsed < state.elapsed ? *quarter : samples_.front();
  const double speed = static_cast<double>(state.computed_tokens - from.computed_tokens) /
                       (state.elapsed - from.elapsed);
  const double tokens = tokens_left(state, static_cast<double>(*state.total));
  if (!(speed > 0)) return std::nullopt;
  return std::max(0.0, tokens / speed);
}

std::string progress_line(const ProgressState& state, std::optional<double> seconds_left,
                          size_t columns) {
  std::string line = done_of(state);
  const auto add = [&](const std::string& part) {
    if (line.size() + 2 + part.size() <= columns) line += "  " + part;
  };
  if (state.next_arrival) {
    add(fmt::format("next line in {}", clock_time(std::ceil(*state.next_arrival))));
  } else if (seconds_left) {
    add("ETA " + clock_time(*seconds_left));
  }
  const double rate =
      state.elapsed > 0 ? static_cast<double>(state.output_tokens) / state.elapsed : 0;
  add(grouped(static_cast<int64_t>(rate)) + " tok/s");
  add(state.model);
  add(fmt::format("{} running", state.running));
  add(fmt::format("KV {:.0f} %", 100 * state.kv_use));
  if (state.out_of_order > 0) add(fmt::format("{} out of order", grouped(state.out_of_order)));
  line.resize(std::min(line.size(), columns));
  return line;
}

bool Progress::due(double now) {
  if (!first_) {
    first_ = now;
    // A plain line at the start would say nothing: the first interval begins now.
    last_ = terminal_ ? now - kRedrawSeconds : now;
  }
  const double interval = terminal_
                              ? kRedrawSeconds
                              : std::clamp((*last_ - *first_) / 20, kPlainSeconds, kRarestSeconds);
  return now - *last_ >= interval;
}

void Progress::show(double now, const ProgressState& state) {
  if (!due(now)) return;
  last_ = now;
  const std::optional<double> left = time_left_.seconds(state);
  if (!terminal_) {
    write_(progress_line(state, left, kPlainColumns) + "\n");
    return;
  }
  // Leaves the last column free: writing there may move a terminal's cursor to the next line.
  const size_t columns = columns_();
  std::string line = progress_line(state, left, columns > 1 ? columns - 1 : kPlainColumns - 1);
  const size_t width = line.size();
  if (width < width_) line.append(width_ - width, ' ');
  width_ = width;
  line.insert(line.begin(), '\r');
  write_(line);
}

void Progress::clear() {
  if (width_ > 0) write_(fmt::format("\r{:{}}\r", "", width_));
  width_ = 0;
}

}  // namespace pagedinfer
