#include "request/table_rows.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "core/refusal.h"
#include "io/line_reader.h"

namespace pagedinfer {
namespace {

// Reads the cells of a row one after the other.
class Cells {
 public:
  Cells(std::string_view row, char delimiter) : row_(row), delimiter_(delimiter) {}

  bool at_end() const { return at_end_; }
  int count() const { return count_; }  // of the cells read

  // The next cell without its quotes; valid until the next call. REQUIRES: !at_end().
  Result<std::string_view> next() {
    ++count_;
    if (place_ == row_.size() || row_[place_] != '"') return to_delimiter();
    text_.clear();
    for (size_t begin = place_ + 1;;) {
      const size_t quote = row_.find('"', begin);
      if (quote == row_.npos) {
        return {"invalid_row", fmt::format("cell {}: found a quote that opens it, expected one "
                                           "that closes it too",
                                           count_)};
      }
      const std::string_view part = row_.substr(begin, quote - begin);
      const bool is_pair = row_.substr(quote + 1).starts_with('"');
      place_ = quote + 1;
      if (!is_pair && text_.empty()) return behind_quote(part);
      text_.append(part);
      if (!is_pair) return behind_quote(text_);
      text_ += '"';
      begin = quote + 2;
    }
  }

 private:
  std::string_view to_delimiter() {
    const size_t end = std::min(row_.find(delimiter_, place_), row_.size());
    const std::string_view cell = row_.substr(place_, end - place_);
    move_to(end);
    return cell;
  }

  Result<std::string_view> behind_quote(std::string_view cell) {
    if (place_ < row_.size() && row_[place_] != delimiter_) {
      return {"invalid_row",
              fmt::format("cell {}: found text behind the quote that closes it, expected the next "
                          "cell; a quote within a quoted cell is doubled",
                          count_)};
    }
    move_to(place_);
    return cell;
  }

  // `end` is of a cell.
  void move_to(size_t end) {
    at_end_ = end == row_.size();
    place_ = end + !at_end_;
  }

  const std::string_view row_;
  const char delimiter_;
  size_t place_ = 0;
  bool at_end_ = false;
  int count_ = 0;
  std::string text_;
};

// Throws the first error in a row, or returns its cells.
std::vector<std::string> cells_of(std::string_view row, char delimiter, std::string_view where) {
  std::vector<std::string> found;
  for (Cells cells(row, delimiter); !cells.at_end();) {
    const Result<std::string_view> cell = cells.next();
    if (!cell) throw Error(fmt::format("{}: {}", where, cell.error().message));
    found.emplace_back(*cell);
  }
  return found;
}

// What is wrong with a header; "" if nothing is.
std::string fault_of(std::string_view header, const std::vector<std::string>& names) {
  if (header.starts_with('{') || header.starts_with('[')) {
    return fmt::format("found {}, expected names of columns; --input-format jsonl reads JSON lines",
                       shortened(header));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) {
      return fmt::format("column {} of {} has no name; expected one", i + 1, names.size());
    }
    if (names[i].find('\r') != std::string::npos) {
      return fmt::format(
          "the name of column {} has a carriage return; expected rows that end in "
          "\\n or \\r\\n",
          i + 1);
    }
    const auto first = std::find(names.begin(), names.end(), names[i]);
    const auto place = static_cast<size_t>(first - names.begin());
    if (place < i) {
      return fmt::format("columns {} and {} are both called {}; expected names that differ",
                         place + 1, i + 1, shortened(names[i]));
    }
  }
  return "";
}

}  // namespace

TableRows::TableRows(const std::string& name, std::string_view header, const TableForm& form)
    : delimiter_(form.delimiter) {
  const std::string where = name + ": the header";
  if (static_cast<int64_t>(header.size()) > kMaxLineBytes) {
    throw Error(fmt::format("{}: is longer than {} bytes", where, kMaxLineBytes));
  }
  if (!simdjson::validate_utf8(header.data(), header.size())) {
    throw Error(fmt::format("{}: {}", where, utf8_error(header).message));
  }
  const std::vector<std::string> names = cells_of(header, delimiter_, where);
  if (const std::string fault = fault_of(header, names); !fault.empty()) {
    throw Error(fmt::format("{}: {}", where, fault));
  }
  for (const std::string& column : names) {
    std::string key = columns_.empty() ? "{" : ",";
    append_json_string(key, column);
    columns_.push_back({column, key + ":"});
  }
  if (form.json_columns.empty()) return;
  for (const std::string& column : cells_of(form.json_columns, ',', "--json-columns")) {
    const auto found = std::ranges::find(columns_, column, &Column::name);
    if (found == columns_.end()) {
      throw Error(fmt::format("--json-columns {}: {} has no such column; expected one of {}",
                              shortened(column), name,
                              shortened(fmt::format("{}", fmt::join(names, ", ")))));
    }
    found->is_json = true;
  }
}

Result<std::string_view> TableRows::to_json(std::string_view row) {
  if (static_cast<int64_t>(row.size()) > kMaxLineBytes) {
    return {"line_too_long",
            fmt::format("the row is longer than {} bytes; does a quote open that has no end?",
                        kMaxLineBytes)};
  }
  if (!simdjson::validate_utf8(row.data(), row.size())) return utf8_error(row);
  constexpr size_t kKeptBytes = 1 << 20;
  if (text_.capacity() > kKeptBytes) text_ = {};
  text_.clear();
  Cells cells(row, delimiter_);
  while (!cells.at_end()) {
    const Result<std::string_view> cell = cells.next();
    if (!cell) return cell.error();
    const auto column = static_cast<size_t>(cells.count()) - 1;
    if (column >= columns_.size()) continue;  // to count them
    if (Result<> added = append_json(columns_[column], *cell); !added) return added.error();
  }
  if (static_cast<size_t>(cells.count()) != columns_.size()) {
    return {"invalid_row", refusal("the row", counted(cells.count(), "cell", "cells"),
                                   fmt::format("{}, as the header has", columns_.size()))};
  }
  text_ += '}';
  const size_t size = text_.size();
  text_.append(static_cast<size_t>(kLinePadding), ' ');
  return std::string_view(text_).substr(0, size);
}

Result<> TableRows::append_json(const Column& column, std::string_view cell) {
  text_ += column.key;
  if (!column.is_json) {
    append_json_string(text_, cell);
    return {};
  }
  if (cell.find_first_not_of(" \t\r\n") == cell.npos) {
    text_ += "null";
    return {};
  }
  cell_.assign(cell).append(static_cast<size_t>(kLinePadding), ' ');
  const std::string_view text = std::string_view(cell_).substr(0, cell.size());
  const bool is_json = json_.parse(text).error() == simdjson::SUCCESS;
  json_.done(text);
  if (!is_json) {
    return {"invalid_json", refusal("column " + shortened(column.name), shortened(cell), "JSON")};
  }
  // Ends of lines stand between the parts of the JSON only, since strings have them escaped.
  const size_t begin = text_.size();
  text_ += cell;
  std::replace_if(
      text_.begin() + static_cast<std::ptrdiff_t>(begin), text_.end(),
      [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return {};
}

}  // namespace pagedinfer
