#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace pagedinfer {

struct ProgressState {
  double elapsed = 0;                 // seconds since the model was loaded
  int64_t done = 0;                   // requests completed or failed
  std::optional<int64_t> total = {};  // requests of the input, if known
  bool total_is_estimate = false;
  int64_t out_of_order = 0;  // done, but their records wait for those of earlier lines
  int64_t output_tokens = 0;
  int running = 0;
  int64_t waiting = 0;
  double kv_use = 0;                        // share of the pool, 0 to 1
  std::optional<double> next_arrival = {};  // seconds left, if the run only waits for a line
};

// One line without a newline: requests done; when the line arrives that the run waits for, else the
// remaining time where the total is known (at the mean rate so far); records that wait for earlier
// ones; mean output tokens per second; running and waiting requests; use of the KV cache.
std::string progress_line(const ProgressState& state);

// Decides when a progress line is due and writes it. On a terminal the line is redrawn in place at
// most ten times a second and cut off at the terminal's width; elsewhere one line is written every
// five seconds. Knows nothing of files or clocks: times are arguments, text goes to `write`.
class Progress {
 public:
  using Write = std::function<void(std::string_view)>;

  // Returns the terminal's width, 0 if there is no limit. Called for each line.
  using Columns = std::function<size_t()>;

  Progress(
      bool terminal, Write write, Columns columns = [] { return size_t{0}; })
      : terminal_(terminal), write_(std::move(write)), columns_(std::move(columns)) {}

  // Whether show(now, ...) would write. Cheap. The first line is due at once on a terminal, after
  // five seconds elsewhere. REQUIRES: `now` (seconds) never decreases.
  [[nodiscard]] bool due(double now);
  // Writes the line if it is due.
  void show(double now, const ProgressState& state);

  // Erases the line on the terminal, so that other text can be written there.
  void clear();

 private:
  bool terminal_;
  Write write_;
  Columns columns_;
  std::optional<double> last_ = {};
  size_t width_ = 0;  // of the line on the terminal
};

}  // namespace pagedinfer
