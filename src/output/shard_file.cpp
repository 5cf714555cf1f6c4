#include "output/shard_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "core/error.h"
#include "io/file_names.h"
#include "io/line_scan.h"

namespace pagedinfer {

namespace {

constexpr int64_t kInOrderBytes = 256 << 10, kOutOfOrderBytes = 16 << 10;

}  // namespace

ShardFile::ShardFile(std::string path, const Take& take) : path_(std::move(path)), file_(path_) {
  int64_t last = -1;
  num_bytes_ = scan_lines(path_, 0, [&](std::string_view line, int64_t) {
    const std::optional<StoredRecord> record = parser_.parse(line);
    ++num_records_;
    contents_.add(line);
    if (!record) {
      throw Error(fmt::format("{}: line {}: expected a record", path_, num_records_));
    }
    ascending_ = ascending_ && record->index > last;
    last = record->index;
    take(*record, num_records_);
    return true;
  });
  if (num_bytes_ != size_of(path_)) {
    throw Error(fmt::format("{}: line {}: the record has no end: the file is not whole", path_,
                            num_records_ + 1));
  }
  if (!ascending_) find_places();
}

void ShardFile::find_places() {
  places_.reserve(static_cast<size_t>(num_records_));
  scan_lines(path_, 0, [&](std::string_view line, int64_t place) {
    if (const auto record = parser_.parse(line)) places_.push_back({record->index, place});
    return true;
  });
  std::sort(places_.begin(), places_.end(),
            [](const Place& a, const Place& b) { return a.index < b.index; });
}

bool ShardFile::next() {
  if (num_given_ == num_records_) return false;
  if (ascending_) {
    place_ += static_cast<int64_t>(text_.size());
  } else {
    place_ = places_[static_cast<size_t>(num_given_)].place;
  }
  ++num_given_;
  text_ = line_at(place_);
  const std::optional<StoredRecord> record = parser_.parse(text_);
  if (!record || record->index <= index_) {
    throw Error(fmt::format("{}: has changed while it was read", path_));
  }
  index_ = record->index;
  return true;
}

std::string_view ShardFile::line_at(int64_t place) {
  int64_t size = ascending_ ? kInOrderBytes : kOutOfOrderBytes;
  for (;; size *= 2) {
    const int64_t skipped = place - window_begin_;
    if (skipped >= 0 && skipped < static_cast<int64_t>(window_.size())) {
      const std::string_view rest = std::string_view(window_).substr(static_cast<size_t>(skipped));
      const size_t end = rest.find('\n');
      if (end != std::string_view::npos) return rest.substr(0, end + 1);
    }
    if (window_begin_ == place &&
        window_begin_ + static_cast<int64_t>(window_.size()) == num_bytes_) {
      return {};  // no record, as the caller will see
    }
    load(place, size);
  }
}

void ShardFile::load(int64_t place, int64_t size) {
  window_begin_ = place;
  window_.resize(static_cast<size_t>(std::min(size, num_bytes_ - place)));
  size_t done = 0;
  while (done < window_.size()) {
    const ssize_t count = pread(file_.fd, window_.data() + done, window_.size() - done,
                                place + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw cannot_read(path_, errno);
    if (count == 0) throw Error(fmt::format("{}: has changed while it was read", path_));
    done += static_cast<size_t>(count);
  }
}

}  // namespace pagedinfer
