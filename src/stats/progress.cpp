#include "stats/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "stats/table.h"

namespace pagedinfer {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr double kPlainSeconds = 5;

}  // namespace

std::string progress_line(const ProgressState& state) {
  std::string line = grouped(state.done);
  if (state.total) line += fmt::format("/{}", grouped(*state.total));
  const double rate =
      state.elapsed > 0 ? static_cast<double>(state.output_tokens) / state.elapsed : 0;
  line += fmt::format(" done, {} tokens/s, {} running, {} waiting, KV {:.0f} %",
                      grouped(static_cast<int64_t>(rate)), state.running, grouped(state.waiting),
                      100 * state.kv_use);
  if (state.total && state.done > 0) {
    const auto left = static_cast<double>(std::max<int64_t>(0, *state.total - state.done));
    const double eta = state.elapsed / static_cast<double>(state.done) * left;
    line += fmt::format(", ETA {}", clock_time(eta));
  }
  return line;
}

bool Progress::due(double now) {
  if (!last_) {
    // A plain line at the start would say nothing: the first interval begins here.
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
