#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/request.h"
#include "intake/intake.h"
#include "settings/config.h"
#include "stats/lines.h"
#include "stats/profile.h"
#include "stats/progress.h"
#include "stats/report.h"
#include "stats/run_stats.h"

namespace pagedinfer {

std::string note_of(const LineHint& hint);
// A note about all unknown keys; "" if there are none.
std::string note_of(const RequestParser::UnknownKeys& keys, bool strict);

// What a run prints on standard error: notes, the first error of each code, the progress, the
// closing table, and how the lines ended. Text that would share a line with the progress erases
// it. Knows nothing of models and files.
class RunConsole {
 public:
  // `output` is the file of the records. `tells`: false: only progress and faults of the program
  // are printed. REQUIRES: `config` outlives the console.
  RunConsole(const Config& config, const std::string& output, bool tells);

  void name_model(const std::string& name) { state_.model = name; }
  // The steps begin. `loaded` is the time since which the progress counts, in seconds; an earlier
  // run has answered `resumed` lines.
  void begin(double loaded, int64_t resumed);

  // Not with --quiet.
  void note(const std::string& text) const;
  void nothing_new(int64_t num_records) const;
  // Also with --quiet.
  void leak(int num_blocks);
  // The hints of the input that were not printed before.
  void hints(const Intake& intake);
  // Prints the first error of each code: a mistake in all lines shows at once.
  void error(const Completion& completion);
  void count_of_lines(int64_t num_completed, int64_t num_failed) const;

  // For the progress.
  void count_answer(const RequestStats& stats);
  void count_step(const StepStats& stats);
  // Whether the progress is due at `now`, in seconds, which never decreases.
  [[nodiscard]] bool is_due(double now);
  // The parts of the progress that others count.
  struct Counted {
    std::optional<LineCount> lines = {};  // of the input
    int64_t out_of_order = 0;             // as ProgressState
  };
  // REQUIRES: is_due() of the same time, for each of the two.
  void show_step(const StepStats& stats, std::vector<int64_t> drawn, const Counted& counted);
  void show_wait(double now, double seconds_left, const Counted& counted);
  void clear_progress() { progress_.clear(); }

  // The table of a run; without answers a sentence instead.
  void result(const Summary& summary, const std::optional<Profile>& profile,
              bool is_complete) const;
  // How to go on with a run that `what_happened` has ended.
  void resume_hint(std::string_view what_happened) const;

 private:
  void show(double now, const Counted& counted);

  const Config& config_;
  const std::string output_;
  const bool tells_faults_of_lines_;  // also with --quiet
  const bool tells_;
  const bool shows_progress_;
  Progress progress_;
  ProgressState state_ = {};
  double loaded_ = 0;
  size_t num_hints_ = 0;           // hints printed so far
  std::set<ErrorCode> told_ = {};  // of the errors printed so far
};

}  // namespace pagedinfer
