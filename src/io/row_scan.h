#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace pagedinfer {

// Finds the ends of rows of CSV, as RFC 4180 has them: a \n inside a quoted cell ends no row. A
// quote opens a cell only as its first character; elsewhere in a cell without quotes, and behind
// the closing quote, it is text. Knows neither cells nor limits.
class RowScan {
 public:
  explicit RowScan(char delimiter) : delimiter_(delimiter) {}

  // The \n that ends the row; null if there is none in [begin, end). The next call goes on at `end`
  // or, after a row's end, behind it.
  const char* find_end(const char* begin, const char* end) {
    for (const char* at = begin; at < end;) {
      switch (place_) {
        case Place::kCellBegin:
          place_ = *at == '"' ? Place::kQuoted : Place::kPlain;
          at += *at == '"';
          break;
        case Place::kPlain:
          while (at < end && *at != delimiter_ && *at != '\n') ++at;
          if (at == end) return nullptr;
          place_ = Place::kCellBegin;
          if (*at++ == '\n') return at - 1;
          break;
        case Place::kQuoted: {
          const void* const quote = std::memchr(at, '"', static_cast<size_t>(end - at));
          const char* const stop = quote != nullptr ? static_cast<const char*>(quote) : end;
          num_inside_ += std::count(at, stop, '\n');
          if (quote == nullptr) return nullptr;
          place_ = Place::kBehindQuote;
          at = stop + 1;
          break;
        }
        case Place::kBehindQuote:  // which closes the cell, or is the first of two
          place_ = *at == '"' ? Place::kQuoted : Place::kPlain;
          at += *at == '"';
          break;
      }
    }
    return nullptr;
  }

  // The number of \n inside the cells of the row that has ended or is at the end of the input.
  int64_t take_num_inside() { return std::exchange(num_inside_, 0); }

 private:
  enum class Place : uint8_t { kCellBegin, kPlain, kQuoted, kBehindQuote };

  const char delimiter_;
  Place place_ = Place::kCellBegin;
  int64_t num_inside_ = 0;
};

}  // namespace pagedinfer
