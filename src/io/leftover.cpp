#include "io/leftover.h"

#include <fmt/format.h>

#include <unordered_map>

#include "core/error.h"
#include "io/line_scan.h"

namespace pagedinfer {

namespace {

constexpr int64_t kCheckEvery = 1024;  // records

bool is_set(const std::vector<bool>& bits, int64_t index) {
  return index < static_cast<int64_t>(bits.size()) && bits[static_cast<size_t>(index)];
}

// Reads both files into a Leftover.
class Reading {
 public:
  Reading(const LeftoverPaths& paths, const TakenLines& taken, bool retry_errors,
          const std::function<void()>& check)
      : paths_(paths), taken_(taken), retry_errors_(retry_errors), check_(check) {
    left_.done.resize(taken.size());
  }

  void read_output(RecordOrder order) {
    int64_t number = 0;
    left_.output_bytes = scan_lines(paths_.output, 0, [&](std::string_view line, int64_t place) {
      const StoredRecord record = parse(paths_.output, ++number, line);
      if (order == RecordOrder::kInput) expect_next(number, record.index);
      if (is_set(left_.done, record.index)) {
        fail(paths_.output, number, fmt::format("index {} comes a second time", record.index));
      }
      if (is_dropped(record, taken_, retry_errors_)) {
        if (!left_.first_dropped) left_.first_dropped = place;
        if (record.index >= num_indices()) return true;
      }
      ++left_.num_delivered;
      set_done(record);
      return true;
    });
  }

  void read_part(int64_t header_bytes) {
    int64_t number = 3;
    left_.part_bytes =
        scan_lines(paths_.part, header_bytes, [&](std::string_view line, int64_t place) {
          const StoredRecord record = parse(paths_.part, ++number, line);
          if (is_dropped(record, taken_, retry_errors_)) return true;
          if (!is_set(left_.done, record.index)) waiting_[record.index] = {place, record.failed};
          return true;
        });
  }

  Leftover end(RecordOrder order) {
    const int64_t first = order == RecordOrder::kInput ? next_taken(turn_) : 0;
    auto missing = static_cast<int64_t>(waiting_.size());
    for (int64_t index = first; missing > 0; index = next_taken(index + 1)) {
      const auto found = waiting_.find(index);
      if (found != waiting_.end()) {
        left_.places.push_back(found->second.place);
        set_done({index, found->second.failed});
        --missing;
      } else if (order == RecordOrder::kInput) {
        left_.places.push_back(-1);
      }
    }
    return std::move(left_);
  }

 private:
  struct Waiting {
    int64_t place;
    bool failed;
  };

  [[noreturn]] static void fail(const std::string& path, int64_t number, const std::string& what) {
    throw Error(
        fmt::format("{}: line {}: {}; this is not what the run has written", path, number, what));
  }

  StoredRecord parse(const std::string& path, int64_t number, std::string_view line) {
    if (number % kCheckEvery == 0) check_();
    const std::optional<StoredRecord> record = parser_.parse(line);
    if (!record) fail(path, number, "expected a record");
    if (record->index < num_indices() && !is_set(taken_, record->index)) {
      fail(path, number, fmt::format("index {} is of no line that the run takes", record->index));
    }
    return *record;
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

  void set_done(const StoredRecord& record) {
    left_.done[static_cast<size_t>(record.index)] = true;
    ++left_.num_done;
    if (record.failed) ++left_.num_failed;
  }

  const LeftoverPaths& paths_;
  const TakenLines& taken_;
  const bool retry_errors_;
  const std::function<void()>& check_;
  RecordParser parser_;
  int64_t turn_ = 0;  // in the order of the input: the index from which on the next one is
  std::unordered_map<int64_t, Waiting> waiting_;  // by index
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

bool is_dropped(const StoredRecord& record, const TakenLines& taken, bool retry_errors) {
  return record.index >= static_cast<int64_t>(taken.size()) || (retry_errors && record.failed);
}

Leftover read_leftover(const LeftoverPaths& paths, RecordOrder order, int64_t header_bytes,
                       const TakenLines& taken, bool retry_errors,
                       const std::function<void()>& check) {
  Reading reading(paths, taken, retry_errors, check);
  reading.read_output(order);
  reading.read_part(header_bytes);
  return reading.end(order);
}

}  // namespace pagedinfer
