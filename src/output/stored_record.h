#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace pagedinfer {

// A record in an output file, as far as others than its reader ask.
struct StoredRecord {
  int64_t index = 0;
  bool failed = false;  // an error record
};

class RecordParser {
 public:
  RecordParser();
  ~RecordParser();
  RecordParser(const RecordParser&) = delete;
  RecordParser& operator=(const RecordParser&) = delete;

  // Nothing if the line is no record.
  std::optional<StoredRecord> parse(std::string_view line);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pagedinfer
