#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace pagedinfer {

// The fields of an output record that resume and merge need.
struct StoredRecord {
  int64_t index = 0;
  bool failed = false;  // an error record
};

// Parses lines of an output.
class RecordParser {
 public:
  RecordParser();
  ~RecordParser();
  RecordParser(const RecordParser&) = delete;
  RecordParser& operator=(const RecordParser&) = delete;

  // nullopt if the line is not a record.
  std::optional<StoredRecord> parse(std::string_view line);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pagedinfer
