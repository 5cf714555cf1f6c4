#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/open_file.h"
#include "output/run_mark.h"
#include "output/stored_record.h"

namespace pagedinfer {

// The output of a run, checked line by line, and its records one at a time by ascending index.
// Memory is that of the longest records and, where they do not stand in that order, 16 bytes for
// each.
class ShardFile {
 public:
  using Take = std::function<void(const StoredRecord& record, int64_t line)>;

  // Gives every record to `take`, in the order of the file. Throws Error naming file and line of
  // what is no record, and of a record that is torn.
  ShardFile(std::string path, const Take& take);

  int64_t num_records() const { return num_records_; }
  const std::string& path() const { return path_; }
  const OutputPrefix& contents() const { return contents_; }

  // Steps to the next record: before the first one at the beginning. False behind the last one.
  // Throws Error if the file is not any more what was checked.
  bool next();
  int64_t index() const { return index_; }
  std::string_view text() const { return text_; }  // with its end

 private:
  struct Place {
    int64_t index, place;
  };

  void find_places();
  // The line at `place` with its end.
  std::string_view line_at(int64_t place);
  void load(int64_t place, int64_t size);

  const std::string path_;
  const OpenFile file_;
  RecordParser parser_;
  int64_t num_records_ = 0, num_bytes_ = 0;
  OutputPrefix contents_ = {};  // all of it
  bool ascending_ = true;
  std::vector<Place> places_ = {};  // by index, of a file that is not ascending
  std::string window_ = {};         // a piece of the file
  int64_t window_begin_ = 0;
  int64_t num_given_ = 0, place_ = 0, index_ = -1;
  std::string_view text_ = {};
};

}  // namespace pagedinfer
