#include "output/record_output.h"

#include <fmt/format.h>

#include <utility>

#include "core/check.h"
#include "io/file_names.h"
#include "io/line_scan.h"

namespace pagedinfer {

using Existing = OutputFile::Existing;

namespace {

// As much may be in both files before a sync is worth its time.
constexpr int64_t kPartBytes = 16 << 20;

OutputFile open_new(const std::string& path, const OutputOptions& options) {
  if (!is_stream(path) && !options.overwrite && name_exists(part_of(path))) {
    throw Error(
        fmt::format("{}: the file exists, left by a run that did not end; --resume continues it, "
                    "--overwrite discards it",
                    part_of(path)));
  }
  OutputFile output(path, options.overwrite ? Existing::kReplace : Existing::kRefuse, options.calls,
                    options.open_pipe);
  if (output.is_regular()) output.lock();
  return output;
}

// Moves the records behind the first one that is to be computed again from the output to the
// part file, those that are `done`. They are in one of them at any time, and the disk has them
// there before the mark, and the mark before the output, lets them go.
void drop_records(const std::string& path, const Leftover& left, OutputFile& output,
                  PartFile& part) {
  const OutputPrefix& kept = *left.before_dropped;
  RecordParser parser;
  scan_lines(path, kept.bytes, [&](std::string_view line, int64_t) {
    const auto record = parser.parse(line);
    const auto index = static_cast<size_t>(record ? record->index : -1);
    if (index < left.done.size() && left.done[index]) part.add(line);
    return true;
  });
  part.flush();
  part.sync();
  if (kept.bytes < part.mark().output.bytes) {
    part.set_output(kept);
    part.sync();
  }
  output.cut(kept.bytes);
}

}  // namespace

RecordOutput::RecordOutput(const std::string& path, OutputOptions options, OutputFile output)
    : options_(std::move(options)),
      path_(path),
      output_(std::move(output)),
      last_sync_(options_.clock()) {}

RecordOutput::RecordOutput(const std::string& path, OutputOptions options)
    : RecordOutput(path, options, open_new(path, options)) {}

void RecordOutput::begin() {
  if (part_ || !output_.is_regular()) return;
  // The old files go before the output that they are about, the new one comes before its first
  // record: no crash leaves a file with a header of another run.
  remove_file(options_.calls, part_of(path_));
  remove_file(options_.calls, run_of(path_));
  output_.flush();
  OutputFile file(part_of(path_), Existing::kRefuse, options_.calls);
  file.append(part_header(options_.fingerprint));
  file.flush();
  if (options_.sync_every > 0) {
    file.sync();
    sync_folder_of(path_);
  }
  const int64_t bytes = file.size();
  part_.emplace(std::move(file), PartHeader{.bytes = bytes});
}

RecordOutput RecordOutput::resume(const std::string& path, OutputOptions options,
                                  const ResumeFrom& from) {
  OutputFile output(path, Existing::kKeep, options.calls);
  output.lock();
  const bool ended = !name_exists(part_of(path)) && !output.is_new() && name_exists(run_of(path));
  const std::string sidecar = ended ? run_of(path) : part_of(path);
  const bool begun = name_exists(sidecar);
  if (is_link(sidecar)) {
    throw Error(sidecar + ": is a link; expected the file that the run has left, not another one");
  }
  if (!begun && output.size() > 0) {
    throw Error(fmt::format(
        "{}: cannot be resumed: there is neither {} nor {}, which say what the run computes", path,
        part_of(path), run_of(path)));
  }
  const auto header = begun ? read_part_header(sidecar) : std::nullopt;
  if (!header && output.size() > 0) {
    throw Error(sidecar + ": expected three lines that say what the run computes");
  }
  if (!header) return RecordOutput(path, std::move(options), std::move(output));

  require_same(sidecar, header->fingerprint, options.fingerprint);
  const TakenLines taken = verify_input(from.input, header->mark.input, from.next_line);
  Leftover left = read_leftover({path, sidecar, ended}, options.order, *header, taken,
                                from.retry_errors, from.check);

  // From here on files change.
  if (ended) rename_file(options.calls, sidecar, part_of(path));
  OutputFile file(part_of(path), Existing::kKeepOwn, options.calls);
  output.cut(left.output.bytes);
  file.cut(left.part_bytes);
  PartFile part(std::move(file), *header);
  if (left.before_dropped) {
    drop_records(path, left, output, part);
    PartHeader now = *header;
    now.mark = part.mark();
    left = read_leftover({path, part_of(path)}, options.order, now, taken, from.retry_errors);
    CHECK(!left.before_dropped);
  }
  RecordOutput resumed(path, std::move(options), std::move(output));
  resumed.part_.emplace(std::move(part));
  resumed.take_over(std::move(left));
  return resumed;
}

void RecordOutput::take_over(Leftover left) {
  prefix_ = left.output;
  done_ = std::move(left.done);
  num_done_ = left.num_done;
  num_failed_ = left.num_failed;
  if (options_.order == RecordOrder::kCompletion) {
    for (const int64_t place : left.places) deliver(part_->record_at(place));
    return;
  }
  next_ = left.num_delivered;
  places_ = std::move(left.places);
  for (const int64_t place : places_) num_waiting_ += place != -1;
  deliver_waiting();
}

void RecordOutput::append(int64_t turn, std::string_view record) {
  CHECK(record.ends_with('\n') && record.find('\n') == record.size() - 1);
  ++num_appended_;
  begin();
  if (options_.order == RecordOrder::kCompletion) return deliver_at_once(turn, record);

  CHECK(turn >= next_);
  const auto turns = static_cast<size_t>(turn - next_);
  if (places_.size() <= turns) places_.resize(turns + 1, -1);
  CHECK(places_[turns] == -1);
  if (turns > 0) {
    places_[turns] = part().add(record);
    ++num_waiting_;
    return;
  }
  deliver_at_once(turn, record);
  places_.pop_front();
  ++next_;
  deliver_waiting();
}

void RecordOutput::deliver_at_once(int64_t turn, std::string_view record) {
  if (output_.is_regular()) part_->add_receipt(turn, record);
  deliver(record);
}

void RecordOutput::deliver(std::string_view record) {
  output_.append(record);
  prefix_.add(record);
}

void RecordOutput::deliver_waiting() {
  while (!places_.empty() && places_.front() != -1) {
    deliver(part_->record_at(places_.front()));
    places_.pop_front();
    ++next_;
    --num_waiting_;
  }
}

void RecordOutput::flush(const RunMark& mark) {
  begin();
  if (part_) {
    part_->set_mark(mark);
    part_->flush();
  }
  output_.flush();
  if (options_.sync_every > 0 && options_.clock() - last_sync_ >= options_.sync_every) sync();
  if (part_ && num_waiting_ == 0 && part_->line_bytes() > 0 && may_clear()) clear_part();
}

bool RecordOutput::may_clear() {
  if (!output_.is_regular() || output_.is_synced()) return true;
  if (part_->line_bytes() < kPartBytes) return false;
  output_.sync();
  return true;
}

void RecordOutput::clear_part() {
  part_->set_output(prefix_);
  if (output_.is_regular()) part_->sync();
  part_->clear();
}

void RecordOutput::check_places() const {
  output_.check_place();
  part_->check_place();
}

void RecordOutput::sync() {
  if (!output_.is_regular()) return;
  check_places();
  part_->sync();
  output_.sync();
  last_sync_ = options_.clock();
}

void RecordOutput::finish(const RunMark& mark) {
  CHECK(places_.empty());
  flush(mark);
  output_.sync();
  if (output_.is_regular()) {
    check_places();
    clear_part();
    part_->sync();
    part_->close();
    rename_file(options_.calls, part_of(path_), run_of(path_));
    sync_folder_of(path_);
  }
  output_.close();  // last: with it goes the lock
}

PartFile& RecordOutput::part() {
  if (!part_) part_.emplace(OutputFile::temporary(), PartHeader{});
  return *part_;
}

}  // namespace pagedinfer
