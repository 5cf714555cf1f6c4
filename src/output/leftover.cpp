#include "output/leftover.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "core/error.h"
#include "io/line_reader.h"

namespace pagedinfer {

namespace {

constexpr int64_t kRecordsPerCheck = 1024;  // records

bool is_set(const std::vector<bool>& bits, int64_t index) {
  return index < static_cast<int64_t>(bits.size()) && bits[static_cast<size_t>(index)];
}

// Reads the part file, then the output.
class LeftoverReader {
 public:
  LeftoverReader(const LeftoverPaths& paths, const StateMark& mark, const TakenLines& taken,
                 const KeptRecords& kept, const std::function<void()>& check)
      : paths_(paths), mark_(mark), taken_(taken), kept_(kept), check_(check) {
    left_.done.resize(taken.size());
  }

  void read_part(int64_t header_bytes) {
    int64_t number = 3;
    left_.part_bytes =
        scan_lines(paths_.part, header_bytes, [&](std::string_view line, int64_t offset) {
          ++number;
          const auto parsed = parse_part_line(line);
          if (!parsed) fail(paths_.part, number, "expected a hash, and a record or its turn");
          if (parsed->is_receipt()) {
            const auto index = index_of(parsed->turn);
            if (index) written_[*index] = {.hash = parsed->hash};
            return true;
          }
          const StoredRecord record = parse(paths_.part, number, parsed->record);
          if (record_hash(parsed->record) != parsed->hash) fail_changed(paths_.part, number);
          if (record.index >= num_indices()) return true;
          Written& written = written_[record.index];
          if (!is_dropped(record)) {
            written = {parsed->hash, offset, record.failed};
          } else if (written.offset == -1) {
            written.hash = parsed->hash;
          }
          return true;
        });
  }

  // REQUIRES: read_part() was called.
  void read_output(RecordOrder order) {
    int64_t number = 0;
    scan_lines(paths_.output, 0, [&](std::string_view line, int64_t offset) {
      const StoredRecord record = parse(paths_.output, ++number, line);
      if (order == RecordOrder::kInput) expect_next(number, record.index);
      if (is_set(seen_, record.index)) {
        fail(paths_.output, number, fmt::format("index {} occurs twice", record.index));
      }
      if (record.index < num_indices()) set(seen_, record.index);
      const OutputPrefix before = left_.output;
      left_.output.add(line);
      const bool is_known = offset < mark_.output.bytes ? check_prefix(number)
                                                        : check_hash(number, record.index, line);
      if (!is_known || is_dropped(record)) {
        if (!left_.before_dropped) left_.before_dropped = before;
        return true;
      }
      ++left_.num_delivered;
      set_done(record.index, record.failed);
      return true;
    });
    if (left_.output.bytes < mark_.output.bytes) {
      throw Error(fmt::format(
          "{}: has {} bytes of whole records, expected the {} that the run has written or more; "
          "it was truncated",
          paths_.output, left_.output.bytes, mark_.output.bytes));
    }
  }

  Leftover end(RecordOrder order) {
    if (left_.before_dropped) return std::move(left_);
    auto missing = std::count_if(written_.begin(), written_.end(), [&](const auto& written) {
      return written.second.offset != -1 && !is_set(left_.done, written.first);
    });
    const int64_t first = order == RecordOrder::kInput ? next_taken(turn_) : 0;
    for (int64_t index = first; missing > 0; index = next_taken(index + 1)) {
      const auto found = written_.find(index);
      if (found != written_.end() && found->second.offset != -1 && !is_set(left_.done, index)) {
        left_.offsets.push_back(found->second.offset);
        set_done(index, found->second.failed);
        --missing;
      } else if (order == RecordOrder::kInput) {
        left_.offsets.push_back(-1);
      }
    }
    return std::move(left_);
  }

 private:
  // The part file's entry for a record: its hash and, if the record waits there, its offset.
  struct Written {
    uint64_t hash = 0;
    int64_t offset = -1;
    bool failed = false;
  };

  [[noreturn]] static void fail(const std::string& path, int64_t number, const std::string& what) {
    throw Error(
        fmt::format("{}: line {}: {}; this is not what the run has written", path, number, what));
  }
  [[noreturn]] static void fail_changed(const std::string& path, int64_t number) {
    fail(path, number, "the record was changed");
  }

  StoredRecord parse(const std::string& path, int64_t number, std::string_view line) {
    if (number % kRecordsPerCheck == 0) check_();
    const std::optional<StoredRecord> record = parser_.parse(line);
    if (!record) fail(path, number, "expected a record");
    if (record->index < num_indices() && !is_set(taken_, record->index)) {
      fail(path, number, fmt::format("the run takes no line of index {}", record->index));
    }
    if (kept_.below && !is_dropped(*record)) check_limit(path, number, *record);
    return *record;
  }

  void check_limit(const std::string& path, int64_t number, const StoredRecord& record) const {
    if (record.num_tokens && *record.num_tokens < *kept_.below) return;
    throw Error(fmt::format(
        "{}: line {}: --retry-errors cannot change max_model_len = {}: it may have cut this record "
        "of {}; expected fewer than {} tokens, prompts and completions together, in every finished "
        "record; resume it with what it began with, or --overwrite begins a new one",
        path, number, *kept_.below + 1,
        record.num_tokens ? fmt::format("{} tokens", *record.num_tokens) : "a beam search",
        *kept_.below));
  }

  // Checks a line that begins in the part of the output that the mark covers.
  bool check_prefix(int64_t number) const {
    const OutputPrefix &read = left_.output, &written = mark_.output;
    if (read.bytes > written.bytes || (read.bytes == written.bytes && read != written)) {
      throw Error(fmt::format(
          "{}: lines 1 to {}: a record among them was changed; this is not what the run has "
          "written",
          paths_.output, number));
    }
    return true;
  }

  // Checks a line after the part of the output that the mark covers. Returns false if the part file
  // does not hold the line's hash.
  bool check_hash(int64_t number, int64_t index, std::string_view line) const {
    if (paths_.has_ended) {
      fail(paths_.output, number, "the run had ended before this record");
    }
    const auto written = written_.find(index);
    if (written == written_.end()) return false;
    if (written->second.hash != record_hash(line)) fail_changed(paths_.output, number);
    return true;
  }

  bool is_dropped(const StoredRecord& record) const {
    return record.index >= num_indices() || (record.failed && !kept_.errors);
  }

  void expect_next(int64_t number, int64_t index) {
    turn_ = next_taken(turn_);
    if (turn_ < num_indices() ? index != turn_ : index < num_indices()) {
      fail(paths_.output, number, fmt::format("expected index {}, found {}", turn_, index));
    }
    if (turn_ < num_indices()) ++turn_;
  }

  int64_t num_indices() const { return static_cast<int64_t>(taken_.size()); }
  int64_t next_taken(int64_t index) const {
    while (index < num_indices() && !is_set(taken_, index)) ++index;
    return index;
  }

  // The index of the line with this turn; nullopt if the mark does not cover it.
  std::optional<int64_t> index_of(int64_t turn) {
    if (indices_.empty()) {
      for (int64_t i = next_taken(0); i < num_indices(); i = next_taken(i + 1)) {
        indices_.push_back(i);
      }
    }
    if (turn >= static_cast<int64_t>(indices_.size())) return std::nullopt;
    return indices_[static_cast<size_t>(turn)];
  }

  static void set(std::vector<bool>& bits, int64_t index) {
    bits.resize(std::max(bits.size(), static_cast<size_t>(index) + 1));
    bits[static_cast<size_t>(index)] = true;
  }
  void set_done(int64_t index, bool failed) {
    left_.done[static_cast<size_t>(index)] = true;
    ++left_.num_done;
    if (failed) ++left_.num_failed;
  }

  const LeftoverPaths& paths_;
  const StateMark& mark_;
  const TakenLines& taken_;
  const KeptRecords& kept_;
  const std::function<void()>& check_;
  RecordParser parser_;
  int64_t turn_ = 0;  // in input order: the next record has the first taken index from here on
  std::vector<int64_t> indices_;                  // of the lines that the run takes
  std::vector<bool> seen_;                        // by index: records in the output
  std::unordered_map<int64_t, Written> written_;  // by index
  Leftover left_;
};

}  // namespace

TakenLines verify_input(const std::string& input, const RunMark& mark, const NextInputLine& next) {
  TakenLines taken;
  RunMark found;
  while (found.lines < mark.lines) {
    const std::optional<InputLine> line = next();
    if (!line) {
      throw Error(fmt::format(
          "{}: has {} lines that are not blank, expected the {} that the run has read, or those "
          "and more behind them",
          input, found.lines, mark.lines));
    }
    found.add(line->text);
    taken.resize(static_cast<size_t>(line->index) + 1);
    taken.back() = line->taken;
  }
  if (found != mark) {
    throw Error(fmt::format(
        "{}: the first {} lines that are not blank have changed since the run began; expected "
        "the same ones, or those and more behind them",
        input, mark.lines));
  }
  return taken;
}

Leftover read_leftover(const LeftoverPaths& paths, RecordOrder order, const PartHeader& header,
                       const TakenLines& taken, const KeptRecords& kept,
                       const std::function<void()>& check) {
  LeftoverReader reader(paths, header.mark, taken, kept, check);
  reader.read_part(header.bytes);
  reader.read_output(order);
  return reader.end(order);
}

}  // namespace pagedinfer
