#include "engine/outlets.h"

#include <utility>

#include "core/error.h"
#include "engine/fingerprint.h"
#include "engine/run_input.h"

namespace pagedinfer {
namespace {

// A file of JSON lines that may not have been asked for.
std::optional<OutputFile> lines_file(const std::string& path) {
  if (path.empty()) return std::nullopt;
  return OutputFile(path, OutputFile::Existing::kAppend);
}

RecordOutput record_output(const Config& config, const Paths& paths, const Setup& setup,
                           const std::function<double()>& clock, const Interrupt& interrupt) {
  OutputOptions options = {
      .order = config.completion_order ? RecordOrder::kCompletion : RecordOrder::kInput,
      .overwrite = config.overwrite,
      .fingerprint = fingerprint_of(config, setup),
      .sync_every = config.sync_every,
      .clock = clock};
  if (!config.resume) return RecordOutput(paths.output, std::move(options));
  InputAgain input(config, interrupt);
  return RecordOutput::resume(paths.output, std::move(options),
                              {.input = input.name(),
                               .next_line = [&] { return input.next(); },
                               .retry_errors = config.retry_errors,
                               .check = [&] { interrupt.throw_if_happened(); }});
}

}  // namespace

Outlets::Outlets(const Config& config, const Paths& paths, const Setup& setup,
                 const std::function<double()>& clock, RunStamp run, const Interrupt& interrupt)
    : clock_(clock),
      run_(std::move(run)),
      records_(record_output(config, paths, setup, clock, interrupt)),
      stats_(lines_file(paths.stats)),
      trace_(lines_file(config.trace)) {}

void Outlets::answer(const Completion& completion, const RequestRecord& record,
                     const RecordOptions& options) {
  const double begin = clock_();
  line_.clear();
  append_record(line_, completion, options);
  records_.append(completion.head.turn, line_);
  report_.add(record);
  if (stats_) {
    line_.clear();
    append_request_line(line_, run_, record);
    stats_->append(line_);
  }
  seconds_ += clock_() - begin;
}

void Outlets::flush(const RunMark& mark) {
  const double begin = clock_();
  records_.flush(mark);
  seconds_ += clock_() - begin;
}

void Outlets::step(const StepRecord& record, const RunMark& mark) {
  flush(mark);
  const double begin = clock_();
  report_.add(record);
  if (trace_) {
    line_.clear();
    append_step_line(line_, run_, record);
    trace_->append(line_);
  }
  seconds_ += clock_() - begin;
}

void Outlets::rescue(const RunMark& mark, const RunInfo& info, const Summary& summary,
                     const std::optional<Profile>& profile) {
  const auto keep = [](const auto& flush) {
    try {
      flush();
    } catch (const Error&) {
    }
  };
  keep([&] { records_.flush(mark); });
  keep([&] { close_stats(info, summary, profile); });
  if (trace_) keep([&] { trace_->flush(); });
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
  if (stats_) {
    line_.clear();
    if (profile) append_profile_line(line_, run_, summary.total, *profile);
    append_summary_line(line_, run_, info, summary);
    stats_->append(line_);
    stats_->flush();
  }
  if (trace_) trace_->flush();
}

}  // namespace pagedinfer
