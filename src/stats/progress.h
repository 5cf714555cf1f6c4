#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace pagedinfer {

struct ProgressState {
  double elapsed = 0;                 // seconds since the first request was taken
  int64_t done = 0;                   // requests answered, errors included
  std::optional<int64_t> total = {};  // that there are to answer, if that is known
  bool total_is_estimate = false;
  int64_t out_of_turn = 0;  // answered, and waiting for those before them in the input
  int64_t output_tokens = 0;
  int running = 0;
  int64_t waiting = 0;
  double kv_use = 0;  // share of the pool, 0 to 1
};

// One line without a newline: requests done and, where the total is known, the time left if the
// rest takes as long per request as what is done; records that wait for their turn, tokens per
// second since the beginning, running and waiting requests, cache use.
std::string progress_line(const ProgressState& state);

// Decides when a progress line is due and writes it. On a terminal the line is redrawn in
// place, at most ten times a second, and cut off at its width; elsewhere a plain line follows every
// five seconds. Knows nothing of files or clocks: times are arguments, text goes to `write`.
class Progress {
 public:
  using Write = std::function<void(std::string_view)>;

  // The terminal's, asked for each line; 0 = any.
  using Columns = std::function<size_t()>;

  Progress(
      bool terminal, Write write, Columns columns = [] { return size_t{0}; })
      : terminal_(terminal), write_(std::move(write)), columns_(std::move(columns)) {}

  // True if show(now, ...) would write; asking is cheap. The first line comes at once on a
  // terminal, after five seconds elsewhere. REQUIRES: `now` (seconds) never falls.
  [[nodiscard]] bool due(double now);
  void show(double now, const ProgressState& state);  // if it is due

  // Leaves the terminal's cursor at the start of an empty line, so that other text can follow.
  void clear();

 private:
  bool terminal_;
  Write write_;
  Columns columns_;
  std::optional<double> last_ = {};
  size_t width_ = 0;  // of the line on the terminal
};

}  // namespace pagedinfer
