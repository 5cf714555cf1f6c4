#pragma once

#include <simdjson.h>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace pagedinfer {

// Records as rows of CSV. First all records are added, which decides the columns; then each can be
// written. docs/output_files.md has the columns. A text stays as it is, also one that a
// spreadsheet would take for a formula.
class RecordTable {
 public:
  // Throws Error if there would be too many columns.
  void add(simdjson::dom::object record);
  // The names of the columns. REQUIRES, as of append_rows(): all records were added.
  std::string header() const;
  // Appends the record's rows: one for each of its completions, or one for its error. `line` is the
  // record's text, from which numbers, lists and objects of `input` are taken as they were written.
  void append_rows(std::string& out, simdjson::dom::object record, std::string_view line) const;

 private:
  // Names in the order in which records first have them.
  struct Names {
    std::vector<std::string> names = {};
    std::map<std::string, size_t, std::less<>> places = {};

    void add(std::string_view name);
  };

  Names inputs_, others_;  // keys of `input`; fields that only some records have
};

}  // namespace pagedinfer
