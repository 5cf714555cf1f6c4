#pragma once

#include <fmt/format.h>
#include <simdjson.h>

#include <memory>
#include <string_view>

#include "core/result.h"
#include "core/utf8.h"

namespace pagedinfer {

// The error of a line that is not UTF-8.
inline RequestError utf8_error(std::string_view text) {
  size_t place = 0;
  while (const int length = utf8_length(text.substr(place))) place += static_cast<size_t>(length);
  return {"invalid_utf8", fmt::format("the line is not UTF-8 at its byte {}", place + 1)};
}

// Parses lines one after the other, and keeps little memory between them.
class LineJson {
 public:
  // The result is valid until done(). REQUIRES: kLinePadding readable bytes follow `text`.
  simdjson::simdjson_result<simdjson::dom::element> parse(std::string_view text) {
    return parser_->parse(text.data(), text.size(), false);
  }
  // Frees the memory of a long line.
  void done(std::string_view text) {
    if (text.size() > kKeptLineBytes) parser_ = std::make_unique<simdjson::dom::parser>();
  }

 private:
  static constexpr size_t kKeptLineBytes = 256 << 10;

  std::unique_ptr<simdjson::dom::parser> parser_ = std::make_unique<simdjson::dom::parser>();
};

}  // namespace pagedinfer
