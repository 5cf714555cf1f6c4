#include "output/final_form.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "io/input_bytes.h"
#include "io/line_reader.h"
#include "io/packer.h"
#include "output/aside_file.h"
#include "output/record_table.h"
#include "request/input_lines.h"

namespace pagedinfer {
namespace {

constexpr int64_t kRecordsBetweenChecks = 1024;

Compression packing_of(std::string_view output) {
  const PackingForm* const form = packing_of_name(output);
  return form != nullptr ? form->packing : Compression::kNone;
}

// Calls `take` with each record of a complete file, and its line of text.
template <class Take>
void for_each_record(const std::string& path, const std::function<void()>& check,
                     const Take& take) {
  simdjson::dom::parser parser;
  int64_t number = 0;
  const int64_t end = scan_lines(path, 0, [&](std::string_view line, int64_t) {
    if (++number % kRecordsBetweenChecks == 0) check();
    simdjson::dom::object record;
    if (parser.parse(line.data(), line.size(), false).get(record) != simdjson::SUCCESS) {
      throw Error(fmt::format("{}: line {}: expected a record", path, number));
    }
    take(record, line);
    return true;
  });
  if (end != size_of(path)) {
    throw Error(fmt::format("{}: line {}: expected a record that ends", path, number + 1));
  }
}

void write_table(const std::string& records, const std::function<void()>& check, Packer& packer) {
  RecordTable table;
  for_each_record(records, check,
                  [&](simdjson::dom::object record, std::string_view) { table.add(record); });
  packer.append(table.header());
  std::string rows;
  for_each_record(records, check, [&](simdjson::dom::object record, std::string_view line) {
    rows.clear();
    table.append_rows(rows, record, line);
    packer.append(rows);
  });
}

// Writes `path` through a file beside it.
template <class Write>
void write_aside(const std::string& path, const FileCalls& calls, const Write& write) {
  const std::string prefix = path + ".converting";
  OutputFile::remove_dead(prefix, calls, [](const std::string&) { return false; });
  AsideFile aside(prefix, calls);
  write(aside.file());
  aside.close();
  aside.rename(path);
  aside.keep();
  sync_folder_of(calls, path);
}

// Appends all bytes of `path`, decompressed, to `take`.
template <class Take>
void copy_bytes(const std::string& path, const std::function<void()>& check, const Take& take) {
  InputBytes bytes(path, -1);
  std::string buffer(256 << 10, '\0');
  while (const int64_t count = bytes.read(buffer.data(), std::ssize(buffer))) {
    check();
    take(std::string_view(buffer).substr(0, static_cast<size_t>(count)));
  }
}

}  // namespace

void write_final_form(const std::string& output, const std::function<void()>& check,
                      const FileCalls& calls) {
  const std::string records = records_of(output);
  write_aside(output, calls, [&](OutputFile& file) {
    Packer packer(packing_of(output), [&](std::string_view packed) { file.append(packed); });
    if (is_table_name(output)) {
      write_table(records, check, packer);
    } else {
      copy_bytes(records, check, [&](std::string_view bytes) { packer.append(bytes); });
    }
    packer.finish();
  });
}

void remove_records(const std::string& output, const FileCalls& calls) {
  remove_file(calls, records_of(output));
}

void unpack_records(const std::string& output, const std::function<void()>& check,
                    const FileCalls& calls) {
  write_aside(records_of(output), calls, [&](OutputFile& file) {
    copy_bytes(output, check, [&](std::string_view bytes) { file.append(bytes); });
  });
}

FinalCount count_records(const std::string& output) {
  FinalCount count;
  InputLines rows(output, {.table = TableForm{}});
  simdjson::dom::parser parser;
  std::string last;
  while (const std::optional<InputLine> row = rows.next()) {
    simdjson::dom::object cells;
    std::string_view index, code;
    if (!row->error.code.empty() ||
        parser.parse(row->text.data(), row->text.size(), false).get(cells) != simdjson::SUCCESS ||
        cells["index"].get(index) != simdjson::SUCCESS ||
        cells["error_code"].get(code) != simdjson::SUCCESS) {
      throw Error(fmt::format("{}: line {}: expected the row of a record", output, row->number));
    }
    count.records += index != last;
    count.failed += !code.empty();
    last = index;
  }
  return count;
}

}  // namespace pagedinfer
