#include "output/shard_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "core/error.h"
#include "io/file_names.h"
#include "io/line_reader.h"

namespace pagedinfer {

namespace {

constexpr int64_t kMaxShardWindow = 256 << 10;  // for each of possibly many shards

}  // namespace

ShardFile::ShardFile(std::string path, const Take& take)
    : path_(std::move(path)), file_(path_), window_(0, kMaxShardWindow) {
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
    throw Error(fmt::format("{}: line {}: the record has no end: the file is incomplete", path_,
                            num_records_ + 1));
  }
  if (!ascending_) find_offsets();
}

void ShardFile::find_offsets() {
  offsets_.reserve(static_cast<size_t>(num_records_));
  scan_lines(path_, 0, [&](std::string_view line, int64_t offset) {
    if (const auto record = parser_.parse(line)) offsets_.push_back({record->index, offset});
    return true;
  });
  std::sort(offsets_.begin(), offsets_.end(),
            [](const Entry& a, const Entry& b) { return a.index < b.index; });
}

bool ShardFile::next() {
  if (num_given_ == num_records_) return false;
  if (ascending_) {
    offset_ += static_cast<int64_t>(text_.size());
  } else {
    offset_ = offsets_[static_cast<size_t>(num_given_)].offset;
  }
  ++num_given_;
  text_ = window_.line_at(offset_, num_bytes_, [&](int64_t offset, char* data, int64_t size) {
    read_at(offset, data, size);
  });
  const std::optional<StoredRecord> record = parser_.parse(text_);
  if (!record || record->index <= index_) {
    throw Error(fmt::format("{}: has changed while it was read", path_));
  }
  index_ = record->index;
  return true;
}

void ShardFile::read_at(int64_t offset, char* data, int64_t size) const {
  const ssize_t count = pagedinfer::read_at(file_.fd, offset, data, static_cast<size_t>(size));
  if (count < 0) throw cannot_read(path_, errno);
  if (count < size) throw Error(fmt::format("{}: has changed while it was read", path_));
}

}  // namespace pagedinfer
