#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/open_file.h"
#include "output/line_window.h"
#include "output/record.h"
#include "output/run_mark.h"

namespace pagedinfer {

// The output of a run: checks it line by line, then returns its records one at a time in the order
// of their indices. Holds one window of the file in memory and, if the records are in another
// order, 16 bytes for each record.
class ShardFile {
 public:
  using Take = std::function<void(const StoredRecord& record, int64_t line)>;

  // Calls `take` for every record, in the order of the file. Throws Error naming file and line if a
  // line is not a record or the last line has no end.
  ShardFile(std::string path, const Take& take);

  const std::string& path() const { return path_; }
  const OutputPrefix& contents() const { return contents_; }

  // Moves to the next record; the first call moves to the first record. Returns false if there are
  // no more. Throws Error if the file has changed since it was checked.
  bool next();
  int64_t index() const { return index_; }
  std::string_view text() const { return text_; }  // with its \n

 private:
  struct Entry {
    int64_t index, offset;
  };

  void find_offsets();
  void read_at(int64_t offset, char* data, int64_t size) const;

  const std::string path_;
  const OpenFile file_;
  RecordParser parser_;
  int64_t num_records_ = 0, num_bytes_ = 0;
  OutputPrefix contents_ = {};  // the whole file
  bool ascending_ = true;
  std::vector<Entry> offsets_ = {};  // by index, if the file is not ascending
  LineWindow window_;
  int64_t num_given_ = 0, offset_ = 0, index_ = -1;
  std::string_view text_ = {};
};

}  // namespace pagedinfer
