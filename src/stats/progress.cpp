#include "stats/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stats/table.h"

namespace pagedinfer {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr double kPlainSeconds = 5;

// Two significant digits: an estimate with more would change with every line.
int64_t roughly(int64_t number) {
  int64_t unit = 1;
  while (number / unit >= 100) unit *= 10;
  return (number + unit / 2) / unit * unit;
}

std::string done_of(const ProgressState& state) {
  const std::string done = grouped(state.done);
  if (!state.total) return done;
  if (!state.total_is_estimate) return fmt::format("{}/{}", done, grouped(*state.total));
  return fmt::format("{} of about {}", done, grouped(std::max(state.done, roughly(*state.total))));
}

}  // namespace

std::string progress_line(const ProgressState& state) {
  std::string line = done_of(state) + " done";
  if (state.next_arrival) {
    line += fmt::format(", next line arrives in {}", clock_time(std::ceil(*state.next_arrival)));
  } else if (state.total && state.done > 0) {
    const auto left = static_cast<double>(std::max<int64_t>(0, *state.total - state.done));
    const double eta = state.elapsed / static_cast<double>(state.done) * left;
    line += fmt::format(", ETA {}", clock_time(eta));
  }
  if (state.out_of_order > 0) {
    line += fmt::format(", {} done out of order", grouped(state.out_of_order));
  }
  const double rate =
      state.elapsed > 0 ? static_cast<double>(state.output_tokens) / state.elapsed : 0;
  return line + fmt::format(", {} tokens/s, {} running, {} waiting, KV {:.0f} %",
                            grouped(static_cast<int64_t>(rate)), state.running,
                            grouped(state.waiting), 100 * state.kv_use);
}

bool Progress::due(double now) {
  if (!last_) {
    // A plain line at the start would say nothing: the first interval begins now.
    last_ = terminal_ ? now - kRedrawSeconds : now;
  }
  return now - *last_ >= (terminal_ ? kRedrawSeconds : kPlainSeconds);
}

void Progress::show(double now, const ProgressState& state) {
  if (!due(now)) return;
  last_ = now;
  std::string line = progress_line(state);
  if (!terminal_) {
    write_(line + "\n");
    return;
  }
  // Leaves the last column free: writing there may move a terminal's cursor to the next line.
  if (const size_t columns = columns_(); columns > 1) {
    line.resize(std::min(line.size(), columns - 1));
  }
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
