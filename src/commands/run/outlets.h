#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "commands/output_paths.h"
#include "core/request.h"
#include "io/interrupt.h"
#include "output/fingerprint.h"
#include "output/output_file.h"
#include "output/record.h"
#include "output/record_output.h"
#include "settings/config.h"
#include "stats/lines.h"
#include "stats/report.h"

namespace pagedinfer {

// A file of measurements. Its failure does not end the run: after the first write error it prints a
// note and is not written to again.
class MeasurementFile {
 public:
  // `path` "" = no file; `open_pipe` as in OutputFile. A file that cannot be opened is one that
  // cannot be written; if it `must_open`, throws Error.
  MeasurementFile(const std::string& path, OutputFile::Existing existing, bool must_open,
                  int open_pipe = -1);

  // Whether lines are written. If not, the caller need not make them.
  bool is_open() const { return file_.has_value(); }
  void append(std::string_view line);
  void flush();

 private:
  void attempt(const std::function<void()>& action);

  std::optional<OutputFile> file_ = {};
};

// Writes records and measurements, line by line.
class Outlets {
 public:
  // Opens the files, and goes on with them if the run goes on with an earlier one. `run` is told in
  // every line of the statistics. `adds_measurements`: also a new output adds to files of
  // measurements, as several runs of one command do. Throws Error when the output or a file that a
  // flag names cannot be opened, and Interrupted when a signal comes before anything has changed.
  Outlets(const Config& config, const Paths& paths, Fingerprint fingerprint,
          const std::function<double()>& clock, RunStamp run, const Interrupt& interrupt,
          bool adds_measurements);

  void answer(const Completion& completion, const RequestStats& stats,
              const RecordOptions& options);
  // Writes out everything that is finished. REQUIRES: called before the run waits for input.
  void flush_all(const RunMark& mark);
  void step(const StepStats& stats, const RunMark& mark);
  // Writes what can still be written after the run has failed. Does not report the error.
  void rescue(const RunMark& mark, const RunInfo& info, const Summary& summary,
              const std::optional<Profile>& profile);
  void close_records(bool complete, const RunMark& mark);
  void close_stats(const RunInfo& info, const Summary& summary,
                   const std::optional<Profile>& profile);

  const RecordOutput& records() const { return records_; }
  const Report& report() const { return report_; }
  double seconds() const { return seconds_; }  // spent here

 private:
  void flush(const RunMark& mark);  // the records

  std::function<double()> clock_;
  const RunStamp run_;
  const std::string summary_;  // the file's name, or ""
  RecordOutput records_;
  MeasurementFile stats_, trace_;
  Report report_;
  std::string line_;
  double seconds_ = 0;
};

}  // namespace pagedinfer
