#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/request.h"
#include "engine/interrupt.h"
#include "engine/resolve.h"
#include "engine/setup.h"
#include "output/output_file.h"
#include "output/record.h"
#include "output/record_output.h"
#include "settings/config.h"
#include "stats/lines.h"
#include "stats/report.h"
#include "stats/run_stamp.h"

namespace pagedinfer {

// A file of measurements: no run is lost over it. What the system refuses is said once, and the
// file is not written to any more.
class MeasurementFile {
 public:
  // `path` "" is no file; `open_pipe` as OutputFile. Throws Error when it cannot be opened.
  MeasurementFile(const std::string& path, std::function<void(const std::string&)> say,
                  int open_pipe = -1);

  // Whether it is written to: no line needs to be made for one that is not.
  bool is_open() const { return file_.has_value(); }
  void append(std::string_view line);
  void flush();

 private:
  void attempt(const std::function<void(OutputFile&)>& action);

  std::optional<OutputFile> file_;
  std::function<void(const std::string&)> say_;
};

// Where answers and measurements go, line by line.
class Outlets {
 public:
  // Opens the files, or goes on with them; their names stand in `paths`. `run` is told in every
  // line of the statistics. Throws Error when that
  // cannot be, and Interrupted when a signal comes before anything has changed.
  Outlets(const Config& config, const Paths& paths, const Setup& setup,
          const std::function<double()>& clock, RunStamp run, const Interrupt& interrupt);

  void answer(const Completion& completion, const RequestStats& stats,
              const RecordOptions& options);
  // Everything that is finished reaches the system with the step that finished it, and before
  // the run waits for more.
  void flush(const RunMark& mark);
  void step(const StepStats& stats, const RunMark& mark);
  // When the run cannot go on: keeps what can be kept. What went wrong is told by others.
  void rescue(const RunMark& mark, const RunInfo& info, const Summary& summary,
              const std::optional<Profile>& profile);
  void close_records(bool complete, const RunMark& mark);
  void close_stats(const RunInfo& info, const Summary& summary,
                   const std::optional<Profile>& profile);

  const RecordOutput& records() const { return records_; }
  const Report& report() const { return report_; }
  double seconds() const { return seconds_; }  // spent here

 private:
  std::function<double()> clock_;
  const RunStamp run_;
  RecordOutput records_;
  MeasurementFile stats_, trace_;
  Report report_;
  std::string line_;
  double seconds_ = 0;
};

}  // namespace pagedinfer
