#include "commands/run/run_console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "core/json.h"
#include "core/refusal.h"
#include "io/file_names.h"
#include "stats/table.h"

namespace pagedinfer {
namespace {

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

void print_note(const std::string& note) { print(fmt::format("note: {}\n", note)); }

// The terminal's columns at standard error; 0 if it is not a terminal.
size_t columns_of_terminal() {
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool shows_progress(const Config& config, const std::string& output) {
  if (config.quiet || config.progress == Config::Progress::kOff) return false;
  // Records that go to a terminal would share lines with the progress.
  const bool shows_records = output == "-" && isatty(STDOUT_FILENO) != 0;
  return config.progress != Config::Progress::kAuto || !shows_records;
}

}  // namespace

std::string note_of(const LineHint& hint) {
  std::string key;
  append_json_string(key, hint.hint.key);
  return fmt::format("line {}: {}: did you mean {}?", hint.line, key, hint.hint.similar);
}

std::string note_of(const RequestParser::UnknownKeys& keys, bool strict) {
  std::string list;
  for (const auto& [key, count] : keys) {
    list += list.empty() ? "" : ", ";
    append_json_string(list, key);  // escaped, so that a terminal can show any key
    list += fmt::format(" ({})", count);
  }
  if (list.empty()) return "";
  return fmt::format("{} unknown keys: {}", strict ? "refused" : "ignored", list);
}

RunConsole::RunConsole(const Config& config, const std::string& output, bool tells)
    : config_(config),
      output_(output),
      tells_faults_of_lines_(tells),
      tells_(tells && !config.quiet),
      shows_progress_(shows_progress(config, output)),
      progress_(isatty(STDERR_FILENO) != 0 && config.progress != Config::Progress::kOn, print,
                columns_of_terminal) {}

void RunConsole::begin(double loaded, int64_t resumed) {
  loaded_ = loaded;
  state_.resumed = resumed;
}

void RunConsole::note(const std::string& text) const {
  if (tells_) print_note(text);
}

void RunConsole::nothing_new(int64_t num_records) const {
  if (tells_) print(fmt::format("nothing new: {} records were there already\n", num_records));
}

void RunConsole::leak(int num_blocks) {
  progress_.clear();
  print_note(
      fmt::format("the program lost {} blocks of its cache and freed them; the records are "
                  "right, please report it",
                  num_blocks));
}

void RunConsole::hints(const Intake& intake) {
  if (!tells_faults_of_lines_) return;
  const std::vector<LineHint> hints = intake.hints(num_hints_);
  if (!hints.empty()) progress_.clear();
  for (const LineHint& hint : hints) print_note(note_of(hint));
  num_hints_ += hints.size();
}

void RunConsole::error(const Completion& completion) {
  const RequestError& error = completion.error;
  if (!tells_faults_of_lines_ || !told_.insert(error.code).second) return;
  progress_.clear();
  print(fmt::format("line {}: {}: {}\n", completion.head.line, error.code.name(), error.message));
}

void RunConsole::count_of_lines(int64_t num_completed, int64_t num_failed) const {
  if (!tells_faults_of_lines_) return;
  print(fmt::format("{}: {} completed, {} ended in an error record\n", state_.model,
                    counted(num_completed, "line", "lines"), num_failed));
}

void RunConsole::count_answer(const RequestStats& stats) {
  ++state_.done;
  state_.output_tokens += stats.completion_tokens;
  int64_t drawn = 0;
  for (const std::vector<double>& times : stats.token_times) drawn += std::ssize(times);
  ++state_.done_by_drawn[drawn];
}

void RunConsole::count_step(const StepStats& stats) {
  state_.computed_tokens += stats.num_tokens;
  state_.decoded_tokens += stats.num_decodes;
}

bool RunConsole::is_due(double now) { return shows_progress_ && progress_.due(now); }

void RunConsole::show_step(const StepStats& stats, std::vector<int64_t> drawn,
                           const Counted& counted) {
  state_.running = static_cast<int>(stats.running);
  state_.kv_use = stats.pool.utilization();
  state_.drawn = std::move(drawn);
  state_.next_arrival.reset();
  show(stats.end, counted);
}

void RunConsole::show_wait(double now, double seconds_left, const Counted& counted) {
  state_.running = 0, state_.kv_use = 0, state_.drawn.clear();
  state_.next_arrival = seconds_left;
  show(now, counted);
}

void RunConsole::show(double now, const Counted& counted) {
  state_.elapsed = now - loaded_;
  if (counted.lines) {
    state_.total = counted.lines->count;
    state_.total_is_estimate = counted.lines->is_estimate;
  }
  state_.out_of_order = counted.out_of_order;
  progress_.show(now, state_);
}

void RunConsole::result(const Summary& summary, const std::optional<Profile>& profile,
                        bool is_complete) const {
  if (!tells_) return;
  if (summary.completed + summary.failed > 0) {
    print(summary_table(state_.model, summary));
    if (profile) print(profile_table(*profile));
  } else if (summary.resumed > 0) {
    nothing_new(summary.resumed);
  } else if (is_complete) {
    print(fmt::format("{}: no line to answer\n", config_.input));
  }
}

void RunConsole::resume_hint(std::string_view what_happened) const {
  if (!tells_) return;
  const std::string_view advice = is_stream(config_.input)
                                      ? "--resume goes on with a file of the same lines as --input"
                                      : "--resume goes on";
  print(fmt::format("{0}: what is finished is in {1} and {1}.part; {2}\n", what_happened, output_,
                    advice));
}

}  // namespace pagedinfer
