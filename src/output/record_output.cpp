#include "output/record_output.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "core/check.h"
#include "io/file_names.h"
#include "io/line_reader.h"

namespace pagedinfer {

using Existing = OutputFile::Existing;

namespace {

// Bytes of lines in the part file from which on the output is synced, so that they can be removed.
constexpr int64_t kPartBytes = 16 << 20;

OutputFile open_new(const std::string& path, const OutputOptions& options) {
  if (!is_stream(path) && !options.overwrite) {
    if (name_exists(part_of(path))) {
      throw Error(
          fmt::format("{}: the file exists, left by an unfinished run; --resume continues it, "
                      "--overwrite discards it",
                      part_of(path)));
    }
    if (name_exists(path)) {
      throw Error(
          fmt::format("{}: the file exists; --resume continues it, --overwrite replaces it", path));
    }
  }
  OutputFile output(path, options.overwrite ? Existing::kReplace : Existing::kRefuse, options.calls,
                    options.open_pipe);
  if (output.is_regular()) output.lock();
  return output;
}

// Truncates the output at its first record that must be computed again. The `done` records after it
// move to the part file. At any time each of them is in at least one of the files, because the part
// file is synced before the mark is shortened, and the mark is synced before the output is
// shortened.
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

// Replaces the part file by one with the settings of this run, in which only the records of `left`
// wait. REQUIRES: no record of the output must be computed again. Until the new file has the name,
// the old settings and the error records among its lines are there together.
void change_settings(const std::string& path, const OutputOptions& options, const Leftover& left,
                     OutputFile& output, PartFile& part) {
  output.flush();
  output.sync();  // before a mark covers the whole output
  const std::string aside = part_of(path) + ".new";
  remove_file(options.calls, aside);
  OutputFile file(aside, Existing::kRefuse, options.calls);
  file.append(part_header(options.fingerprint, {part.mark().input, left.output, 1}));
  for (const int64_t offset : left.offsets) {
    if (offset != -1) file.append(waiting_line(part.record_at(offset)));
  }
  file.flush();
  file.sync();
  file.close();
  part.close();
  rename_file(options.calls, aside, part_of(path));
  sync_folder_of(options.calls, path);
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
  // Removes the state files before the output is truncated and creates the new one before its first
  // record is written: a crash never leaves an output beside the header of another run.
  remove_file(options_.calls, part_of(path_));
  remove_file(options_.calls, run_of(path_));
  output_.flush();
  OutputFile file(part_of(path_), Existing::kRefuse, options_.calls);
  file.append(part_header(options_.fingerprint));
  file.flush();
  // Without this header a resumed run could not tell which run wrote the records on disk.
  file.sync();
  sync_folder_of(options_.calls, path_);
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
    throw Error(sidecar + ": is a symbolic link, expected the file that the run has left");
  }
  if (!begun && output.size() > 0) {
    throw Error(fmt::format(
        "{}: cannot be resumed: there is neither {} nor {}, which hold the settings of the run",
        path, part_of(path), run_of(path)));
  }
  const auto header = begun ? read_part_header(sidecar) : std::nullopt;
  if (!header && output.size() > 0) {
    throw Error(sidecar + ": expected three lines with the progress and the settings of the run");
  }
  if (!header) return RecordOutput(path, std::move(options), std::move(output));

  require_same(sidecar, header->fingerprint, options.fingerprint, from.retry_errors);
  const TakenLines taken = verify_input(from.input, header->mark.input, from.next_line);
  const KeptRecords kept = {.errors = !from.retry_errors,
                            .below = limit_of_kept(header->fingerprint, options.fingerprint)};
  Leftover left =
      read_leftover({path, sidecar, ended}, options.order, *header, taken, kept, from.check);

  // From here on files change.
  if (ended) {
    rename_file(options.calls, sidecar, part_of(path));
    sync_folder_of(options.calls, path);  // a .run whose output has more records is refused
  }
  OutputFile file(part_of(path), Existing::kKeepOwn, options.calls);
  output.cut(left.output.bytes);
  file.cut(left.part_bytes);
  std::optional<PartFile> part(std::in_place, std::move(file), *header);
  if (left.before_dropped) {
    drop_records(path, left, output, *part);
    PartHeader now = *header;
    now.mark = part->mark();
    left = read_leftover({path, part_of(path)}, options.order, now, taken, kept);
    CHECK(!left.before_dropped);
  }
  if (first_difference(header->fingerprint, options.fingerprint)) {
    change_settings(path, options, left, output, *part);
    const auto now = read_part_header(part_of(path));
    left = read_leftover({path, part_of(path)}, options.order, *now, taken, kept);
    part.emplace(OutputFile(part_of(path), Existing::kKeepOwn, options.calls), *now);
  }
  RecordOutput resumed(path, std::move(options), std::move(output));
  resumed.part_.emplace(std::move(*part));
  resumed.restore(std::move(left));
  return resumed;
}

void RecordOutput::restore(Leftover left) {
  prefix_ = left.output;
  done_ = std::move(left.done);
  num_done_ = left.num_done;
  num_failed_ = left.num_failed;
  if (options_.order == RecordOrder::kCompletion) {
    for (const int64_t offset : left.offsets) deliver(part_->record_at(offset));
    return;
  }
  next_ = left.num_delivered;
  offsets_ = std::move(left.offsets);
  for (const int64_t offset : offsets_) num_waiting_ += offset != -1;
  deliver_waiting();
}

void RecordOutput::append(int64_t turn, std::string_view record) {
  CHECK(record.ends_with('\n') && record.find('\n') == record.size() - 1);
  begin();
  if (options_.order == RecordOrder::kCompletion) return deliver_at_once(turn, record);

  CHECK(turn >= next_);
  const auto turns = static_cast<size_t>(turn - next_);
  if (offsets_.size() <= turns) offsets_.resize(turns + 1, -1);
  CHECK(offsets_[turns] == -1);
  if (turns > 0) {
    offsets_[turns] = part().add(record);
    ++num_waiting_;
    return;
  }
  deliver_at_once(turn, record);
  offsets_.pop_front();
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
  while (!offsets_.empty() && offsets_.front() != -1) {
    deliver(part_->record_at(offsets_.front()));
    offsets_.pop_front();
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

void RecordOutput::check_names() const {
  output_.check_name();
  part_->check_name();
}

void RecordOutput::sync() {
  if (!output_.is_regular()) return;
  check_names();
  part_->sync();
  output_.sync();
  last_sync_ = options_.clock();
}

void RecordOutput::finish(const RunMark& mark) {
  CHECK(offsets_.empty());
  flush(mark);
  output_.sync();
  if (output_.is_regular()) {
    check_names();
    clear_part();
    part_->sync();
    part_->close();
    rename_file(options_.calls, part_of(path_), run_of(path_));
    sync_folder_of(options_.calls, path_);
  }
  output_.close();  // last, because it releases the lock
}

PartFile& RecordOutput::part() {
  if (!part_) part_.emplace(OutputFile::temporary(), PartHeader{});
  return *part_;
}

}  // namespace pagedinfer
