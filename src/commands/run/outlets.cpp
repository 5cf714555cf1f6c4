#include "commands/run/outlets.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "commands/run/run_input.h"
#include "core/error.h"
#include "io/open_file.h"

namespace pagedinfer {
namespace {

void say(const std::string& sentence) { fmt::print(stderr, "{}\n", sentence); }

MeasurementFile measurements(const std::string& path, const Interrupt& interrupt) {
  const OpenFile reader = wait_for_reader(path, interrupt.fd());
  interrupt.throw_if_happened();
  return MeasurementFile(path, say, reader.fd);
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
  if (!config.resume) return RecordOutput(paths.output, std::move(options));
  InputAgain input(config, interrupt);
  return RecordOutput::resume(paths.output, std::move(options),
                              {.input = input.name(),
                               .next_line = [&] { return input.next(); },
                               .retry_errors = config.retry_errors,
                               .check = [&] { interrupt.throw_if_happened(); }});
}

}  // namespace

MeasurementFile::MeasurementFile(const std::string& path,
                                 std::function<void(const std::string&)> say, int open_pipe)
    : say_(std::move(say)) {
  if (!path.empty()) file_.emplace(path, OutputFile::Existing::kAppend, FileCalls{}, open_pipe);
}

void MeasurementFile::attempt(const std::function<void(OutputFile&)>& action) {
  if (!file_) return;
  try {
    action(*file_);
  } catch (const Error& error) {
    file_.reset();
    say_(fmt::format("note: {}; the run goes on without these measurements", error.what()));
  }
}

void MeasurementFile::append(std::string_view line) {
  attempt([&](OutputFile& file) { file.append(line); });
}

void MeasurementFile::flush() {
  attempt([](OutputFile& file) { file.flush(); });
}

Outlets::Outlets(const Config& config, const Paths& paths, Fingerprint fingerprint,
                 const std::function<double()>& clock, RunStamp run, const Interrupt& interrupt)
    : clock_(clock),
      run_(std::move(run)),
      records_(record_output(config, paths, std::move(fingerprint), clock, interrupt)),
      stats_(measurements(paths.stats, interrupt)),
      trace_(measurements(config.trace, interrupt)) {}

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
  line_.clear();
  if (profile) append_profile_line(line_, run_, summary.total, *profile);
  append_summary_line(line_, run_, info, summary);
  stats_.append(line_);
  stats_.flush();
  trace_.flush();
}

}  // namespace pagedinfer
