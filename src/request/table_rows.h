#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "request/line_json.h"

namespace pagedinfer {

// How cells of CSV (a comma) or TSV (a tab) become values.
struct TableForm {
  char delimiter = ',';
  std::string json_columns = {};  // names as cells of CSV; their cells are JSON
};

// Turns the rows of a table into objects of strings, with the header's names as keys.
class TableRows {
 public:
  // `name` is the table's, for messages. Throws Error if the header is not a row of names that
  // differ, or lacks one of the columns of JSON.
  TableRows(const std::string& name, std::string_view header, const TableForm& form);

  // The row's JSON text, on one line. An empty cell of JSON is null. Valid until the next call, and
  // kLinePadding readable bytes follow it. REQUIRES: RowScan has found the row's end.
  Result<std::string_view> to_json(std::string_view row);

 private:
  struct Column {
    std::string name;
    std::string key;  // with what stands before the value: {"name": or ,"name":
    bool is_json = false;
  };

  Result<> append_json(const Column& column, std::string_view cell);

  const char delimiter_;
  std::vector<Column> columns_;
  LineJson json_;
  std::string text_, cell_;
};

}  // namespace pagedinfer
