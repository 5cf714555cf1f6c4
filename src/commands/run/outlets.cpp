#include "commands/run/outlets.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "commands/run/run_input.h"
#include "core/error.h"
#include "io/open_file.h"
#include "output/final_form.h"

namespace pagedinfer {
namespace {

// A run that goes on with an earlier one adds to a file that is there, as every run does if
// `always_adds`; else the file is replaced. `is_named`: by a flag.
MeasurementFile measurements(const std::string& path, bool is_named, bool always_adds,
                             const RecordOutput& records, const Interrupt& interrupt) {
  const OpenFile reader = wait_for_reader(path, interrupt.fd());
  interrupt.throw_if_happened();
  const bool adds = always_adds || records.num_done() > 0;
  return MeasurementFile(path,
                         adds ? OutputFile::Existing::kAppend : OutputFile::Existing::kReplace,
                         is_named, reader.fd);
}

// What must be so before the JSON lines of an output of another form are opened: a resumed run has
// them, and another run does not replace the output unasked.
void prepare_made(const Config& config, const Paths& paths, const Interrupt& interrupt) {
  if (paths.made.empty() || !name_exists(paths.made) || config.overwrite) return;
  if (!config.resume) {
    throw Error(fmt::format("{}: the file exists; --resume continues it, --overwrite replaces it",
                            paths.made));
  }
  if (is_only_made(paths)) unpack_records(paths.made, [&] { interrupt.throw_if_happened(); });
}

RecordOutput record_output(const Config& config, const Paths& paths, Fingerprint fingerprint,
                           const std::function<double()>& clock, const Interrupt& interrupt) {
  const OpenFile reader = wait_for_reader(paths.output, interrupt.fd());
  interrupt.throw_if_happened();
  OutputOptions options = {.order = config.order == Config::Order::kCompletion
                                        ? RecordOrder::kCompletion
                                        : RecordOrder::kInput,
                           .overwrite = config.overwrite,
                           .fingerprint = std::move(fingerprint),
                           .sync_every = config.sync_every,
                           .clock = clock,
                           .open_pipe = reader.fd};
  prepare_made(config, paths, interrupt);
  if (!config.resume) return RecordOutput(paths.output, std::move(options));
  InputAgain input(config, interrupt);
  return RecordOutput::resume(paths.output, std::move(options),
                              {.input = input.name(),
                               .next_line = [&] { return input.next(); },
                               .retry_errors = config.retry_errors,
                               .check = [&] { interrupt.throw_if_happened(); }});
}

}  // namespace

MeasurementFile::MeasurementFile(const std::string& path, OutputFile::Existing existing,
                                 bool must_open, int open_pipe) {
  const auto open = [&] { file_.emplace(path, existing, FileCalls{}, open_pipe); };
  if (path.empty()) return;
  must_open ? open() : attempt(open);
}

void MeasurementFile::attempt(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    file_.reset();
    fmt::print(stderr, "note: {}; the run goes on without these measurements\n", error.what());
  }
}

void MeasurementFile::append(std::string_view line) {
  if (file_) attempt([&] { file_->append(line); });
}

void MeasurementFile::flush() {
  if (file_) attempt([&] { file_->flush(); });
}

Outlets::Outlets(const Config& config, const Paths& paths, Fingerprint fingerprint,
                 const std::function<double()>& clock, RunStamp run, const Interrupt& interrupt,
                 bool adds_measurements)
    : clock_(clock),
      run_(std::move(run)),
      summary_(paths.summary),
      records_(record_output(config, paths, std::move(fingerprint), clock, interrupt)),
      stats_(
          measurements(paths.stats, !config.stats.empty(), adds_measurements, records_, interrupt)),
      trace_(measurements(config.trace, true, adds_measurements, records_, interrupt)) {}

void Outlets::answer(const Completion& completion, const RequestStats& stats,
                     const RecordOptions& options) {
  const double begin = clock_();
  line_.clear();
  append_record(line_, completion, options);
  records_.append(completion.head.turn, line_);
  report_.add(stats);
  if (stats_.is_open()) {
    line_.clear();
    append_request_line(line_, run_, stats);
    stats_.append(line_);
  }
  seconds_ += clock_() - begin;
}

void Outlets::flush(const RunMark& mark) {
  const double begin = clock_();
  records_.flush(mark);
  seconds_ += clock_() - begin;
}

void Outlets::flush_all(const RunMark& mark) {
  flush(mark);
  stats_.flush();
  trace_.flush();
}

void Outlets::step(const StepStats& stats, const RunMark& mark) {
  flush(mark);
  const double begin = clock_();
  report_.add(stats);
  if (trace_.is_open()) {
    line_.clear();
    append_step_line(line_, run_, stats);
    trace_.append(line_);
  }
  seconds_ += clock_() - begin;
}

void Outlets::rescue(const RunMark& mark, const RunInfo& info, const Summary& summary,
                     const std::optional<Profile>& profile) {
  try {
    records_.flush(mark);
  } catch (const Error&) {
  }
  close_stats(info, summary, profile);
}

void Outlets::close_records(bool complete, const RunMark& mark) {
  records_.flush(mark);
  if (complete) {
    records_.finish(mark);
  } else {
    records_.sync();
  }
}

void Outlets::close_stats(const RunInfo& info, const Summary& summary,
                          const std::optional<Profile>& profile) {
  stats_.flush();
  trace_.flush();
  if (summary_.empty()) return;
  line_.clear();
  append_summary(line_, run_, info, summary, profile);
  MeasurementFile file(summary_, OutputFile::Existing::kReplace, false);
  file.append(line_);
  file.flush();
}

}  // namespace pagedinfer
