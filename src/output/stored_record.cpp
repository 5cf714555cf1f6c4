#include "output/stored_record.h"

#include <simdjson.h>

namespace pagedinfer {

class RecordParser::Impl : public simdjson::dom::parser {};

RecordParser::RecordParser() : impl_(std::make_unique<Impl>()) {}
RecordParser::~RecordParser() = default;

std::optional<StoredRecord> RecordParser::parse(std::string_view line) {
  simdjson::dom::object object;
  simdjson::dom::element error;
  StoredRecord record;
  if (impl_->parse(line.data(), line.size()).get(object) != simdjson::SUCCESS ||
      object["index"].get(record.index) != simdjson::SUCCESS || record.index < 0) {
    return std::nullopt;
  }
  record.failed = object["error"].get(error) == simdjson::SUCCESS && !error.is_null();
  return record;
}

}  // namespace pagedinfer
