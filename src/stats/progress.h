#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pagedinfer {

struct ProgressState {
  std::string model = {};             // the model's name
  double elapsed = 0;                 // seconds since the model was loaded
  int64_t resumed = 0;                // requests that an earlier run has answered
  int64_t done = 0;                   // requests completed or failed by this run
  std::optional<int64_t> total = {};  // requests that this run answers, if known
  bool total_is_estimate = false;
  int64_t out_of_order = 0;         // done, but their records wait for those of earlier lines
  int64_t computed_tokens = 0;      // by all steps, of prompts and outputs
  int64_t decoded_tokens = 0;       // of these, tokens of outputs
  std::vector<int64_t> drawn = {};  // tokens drawn so far, of each request in progress
  std::map<int64_t, int64_t> done_by_drawn = {};  // number of requests done, by tokens drawn
  int64_t output_tokens = 0;                      // of requests done
  int running = 0;
  double kv_use = 0;                        // share of the pool, 0 to 1
  std::optional<double> next_arrival = {};  // seconds left, if the run only waits for a line
};

// The remaining time of a run: the tokens that are left, at the speed of the run so far but for its
// first quarter, when the cache was empty. The mean request is estimated by the ones that are done
// and by how far the others have come, because the shortest ones end first.
class TimeLeft {
 public:
  // The time left in seconds; nullopt before a request is done, or if the total is not known.
  // REQUIRES: `elapsed` never decreases.
  std::optional<double> seconds(const ProgressState& state);

 private:
  struct Sample {
    double elapsed = 0;
    int64_t computed_tokens = 0;
  };
  std::vector<Sample> samples_ = {{}};
};

// One line without a newline of at most `columns` columns: the share and number of requests done
// (those of earlier runs too); when the line arrives that the run waits for, else the time left;
// mean output tokens per second; the model; running requests; use of the KV cache; records that
// wait for earlier ones. What does not fit is left out from the end.
std::string progress_line(const ProgressState& state, std::optional<double> seconds_left,
                          size_t columns);

// Decides when a progress line is due and writes it. On a terminal the line is redrawn in place at
// most ten times a second and fits the terminal; elsewhere a line of at most 80 columns is written
// every five seconds, and after 100 seconds after each twentieth of the time so far, up to ten
// minutes. Knows nothing of files or clocks: times are arguments, text goes to `write`.
class Progress {
 public:
  using Write = std::function<void(std::string_view)>;

  // Returns the width of the terminal; 0 if it is not known, which counts as 80. Called for each
  // line.
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
  std::optional<double> first_ = {}, last_ = {};  // calls of due(), lines
  TimeLeft time_left_ = {};
  size_t width_ = 0;  // of the line on the terminal
};

}  // namespace pagedinfer
