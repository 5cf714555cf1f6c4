#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "request/input_lines.h"
#include "tests/support/gzip.h"
#include "tests/support/support.h"
#include "tests/support/zstd.h"

using namespace pagedinfer;

namespace {

LineChoice table(char delimiter = ',', const std::string& json_columns = "") {
  return {.table = TableForm{delimiter, json_columns}};
}

// Each row as "LINE JSON", or "LINE CODE" for an error; at the end what ended the run, if anything.
std::vector<std::string> rows_of(const std::string& path, const LineChoice& choice) {
  std::vector<std::string> rows;
  try {
    InputLines lines(path, choice);
    while (const auto line = lines.next()) {
      const bool failed = !line->error.code.empty();
      rows.push_back(
          fmt::format("{} {}", line->number, failed ? line->error.code.name() : line->text));
    }
  } catch (const Error& error) {
    rows.emplace_back(error.what());
  }
  return rows;
}

std::vector<std::string> rows_of_text(const std::string& text, const LineChoice& choice = table()) {
  const TempDir dir;
  write_file(dir / "in", text);
  return rows_of(dir / "in", choice);
}

using Rows = std::vector<std::string>;

// What ends a run over a table of this text.
std::string refusal_of(const std::string& text, const LineChoice& choice = table()) {
  const Rows rows = rows_of_text(text, choice);
  REQUIRE(rows.size() == 1);
  return rows[0].substr(rows[0].find(": ") + 2);
}

// Prints for each row what rows_of() must give, up to the first row that is not well formed.
constexpr const char* kOracle = R"(
import csv, json, sys
csv.field_size_limit(1 << 30)
def quoted(text):
    escapes = {'"': '\\"', '\\': '\\\\', '\n': '\\n', '\t': '\\t', '\r': '\\r'}
    return '"' + ''.join(escapes.get(c) or (c if c >= ' ' and c != '\x7f' else f'\\u{ord(c):04x}') for c in text) + '"'
for path, delimiter in zip(sys.argv[1::2], sys.argv[2::2]):
    out = open(path + '.expected', 'w', newline='')
    header, line = None, 1
    with open(path, newline='', encoding='utf-8') as file:
        rows = csv.reader(file, delimiter={'comma': ',', 'tab': '\t'}[delimiter], strict=True)
        try:
            for row in rows:
                if row and header is None:
                    header = row
                elif row:
                    same = len(row) == len(header)
                    text = '{' + ','.join(f'{quoted(k)}:{quoted(v)}' for k, v in zip(header, row)) + '}'
                    out.write(f'{line} {text if same else "invalid_row"}\n')
                line = rows.line_num + 1
        except csv.Error:
            out.write(f'{line} invalid_row\n')
)";

std::string random_cell(std::mt19937& random, char delimiter) {
  static const std::vector<std::string> kPieces = {"a",  "B",    "0", " ",    "\"",   ",",  "\t",
                                                   "\n", "\r\n", "é", "日本", "=1+1", "\\", "{}"};
  std::string text;
  for (auto left = random() % 6; left > 0; --left) text += kPieces[random() % kPieces.size()];
  const bool needs_quotes = text.starts_with('"') || text.find(delimiter) != text.npos ||
                            text.find_first_of("\r\n") != text.npos;
  if (!needs_quotes && random() % 2 == 0) return text;
  std::string cell = "\"";
  for (const char c : text) cell.append(c == '"' ? 2 : 1, c);
  return cell + "\"";
}

std::string random_table(std::mt19937& random, char delimiter) {
  const size_t width = 1 + random() % 5;
  std::string text = random() % 3 == 0 ? "\n" : "";
  for (size_t i = 0; i < width; ++i) {
    text += fmt::format("{}{}name \"{}\"{}", i > 0 ? std::string(1, delimiter) : "",
                        i % 2 == 1 ? "the " : "", i, i % 3 == 0 ? "\\é" : "");
  }
  for (auto left = random() % 30; left > 0; --left) {
    text += random() % 3 == 0 ? "\r\n" : random() % 6 == 0 ? "\n\n\n" : "\n";
    const size_t cells = random() % 12 == 0 ? 1 + random() % 7 : width;
    for (size_t i = 0; i < cells; ++i) {
      if (i > 0) text += delimiter;
      text += random_cell(random, delimiter);
    }
  }
  return text + (random() % 2 == 0 ? "\n" : "");
}

// Bytes of which Python may refuse some row.
std::string random_soup(std::mt19937& random, char delimiter) {
  const std::vector<std::string> pieces = {"\"", "\"\"", "a",
                                           "\n", "\r\n", std::string(1, delimiter)};
  std::string text = fmt::format("x{}y\n", delimiter);
  for (auto left = random() % 40; left > 0; --left) text += pieces[random() % pieces.size()];
  return text;
}

Rows expected_rows(const std::string& path) {
  std::ifstream file(path + ".expected");
  Rows rows;
  for (std::string line; std::getline(file, line);) rows.push_back(line);
  return rows;
}

}  // namespace

TEST_CASE("rows of random tables are those of Python's csv module") {
  const TempDir dir;
  std::mt19937 random(1);
  write_file(dir / "oracle.py", kOracle);
  std::string command = "python3 " + (dir / "oracle.py");
  struct Table {
    std::string path;
    char delimiter;
    bool is_soup;
  };
  std::vector<Table> tables;
  for (int i = 0; i < 600; ++i) {
    const Table one = {dir / std::to_string(i), random() % 3 == 0 ? '\t' : ',', i % 3 == 0};
    write_file(one.path, one.is_soup ? random_soup(random, one.delimiter)
                                     : random_table(random, one.delimiter));
    command += fmt::format(" {} {}", one.path, one.delimiter == ',' ? "comma" : "tab");
    tables.push_back(one);
  }
  REQUIRE(std::system(command.c_str()) == 0);
  size_t num_rows = 0, num_errors = 0;
  for (const Table& one : tables) {
    CAPTURE(one.path);
    const Rows expected = expected_rows(one.path);
    Rows found = rows_of(one.path, table(one.delimiter));
    if (one.is_soup && found.size() > expected.size()) found.resize(expected.size());
    CHECK(found == expected);
    num_rows += expected.size();
    for (const std::string& row : expected) num_errors += row.ends_with("invalid_row");
  }
  CHECK(num_rows > 3000);
  CHECK(num_errors > 200);
}

TEST_CASE("a table is the same however its bytes arrive, and packed") {
  const TempDir dir;
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    const std::string plain = random_table(random, ',') + "\n\"z";
    write_file(dir / "in", plain);
    const Rows expected = rows_of(dir / "in", table());
    const std::string text = (round % 2 == 0 ? "\xEF\xBB\xBF" : "") + plain;
    for (const std::string& packed : {gzip(text), zstd(text), text}) {
      int ends[2];
      REQUIRE(pipe(ends) == 0);
      std::thread writer([&] {
        for (const char byte : packed) {
          if (write(ends[1], &byte, 1) != 1) std::abort();
        }
        close(ends[1]);
      });
      CHECK(rows_of(fmt::format("/proc/self/fd/{}", ends[0]), table()) == expected);
      writer.join();
      close(ends[0]);
    }
    CHECK(expected.back().ends_with(" invalid_row"));  // its quote has no end
  }
}

TEST_CASE("limits and shards count rows, and the line of a row is where it begins") {
  const TempDir dir;
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    write_file(dir / "in", random_table(random, ','));
    LineChoice choice = table();
    if (round % 2 == 0) choice.limit = 1 + static_cast<int64_t>(random() % 20);
    const Rows whole = rows_of(dir / "in", choice);
    choice.shard.count = 1 + static_cast<int64_t>(random() % 5);
    size_t num_taken = 0;
    for (choice.shard.index = 0; choice.shard.index < choice.shard.count; ++choice.shard.index) {
      InputLines lines(dir / "in", choice);
      for (size_t at = 0; const auto line = lines.next(); ++at) {
        CHECK(line->index == static_cast<int64_t>(at));
        CHECK(line->taken == (line->index % choice.shard.count == choice.shard.index));
        REQUIRE(at < whole.size());
        CHECK(whole[at].starts_with(fmt::format("{} ", line->number)));
        num_taken += line->taken;
      }
    }
    CHECK(num_taken == whole.size());
  }
  const Rows rows = rows_of_text("\r\na,b\r\n1,\"x\r\n\r\ny\"\r\n\r\n2,\"\"\"\"\n3,4");
  CHECK(rows == Rows{"3 {\"a\":\"1\",\"b\":\"x\\r\\n\\r\\ny\"}", "7 {\"a\":\"2\",\"b\":\"\\\"\"}",
                     "8 {\"a\":\"3\",\"b\":\"4\"}"});
}

TEST_CASE("a row that is no object is one error record, and the next row is read") {
  const auto error_of = [](const std::string& row, const LineChoice& choice = table()) {
    const TempDir dir;
    write_file(dir / "in", "a,b\n" + row + "\n1,2\n");
    InputLines lines(dir / "in", choice);
    const auto line = lines.next();
    REQUIRE(line);
    const std::string text = fmt::format("{}: {}", line->error.code.name(), line->error.message);
    CHECK(line->text.starts_with(row.substr(0, 9)));
    if (row.find("no end") == row.npos) {
      CHECK(lines.next()->text.starts_with("{\"a\":\"1\",\"b\":"));
    }
    CHECK(!lines.next());
    return text;
  };
  CHECK(error_of("1") == "invalid_row: the row: found 1 cell, expected 2, as the header has");
  CHECK(error_of("1,2,3") == "invalid_row: the row: found 3 cells, expected 2, as the header has");
  CHECK(error_of("1,\"2\"3") ==
        "invalid_row: cell 2: found text behind the quote that closes it, expected the next cell; "
        "a quote within a quoted cell is doubled");
  CHECK(error_of("1,\"no end") ==
        "invalid_row: cell 2: found a quote that opens it, expected one that closes it too");
  CHECK(error_of("1,\xFF") == "invalid_utf8: the line is not UTF-8 at its byte 3");
  CHECK(error_of("1,{", table(',', "b")) == "invalid_json: column b: found {, expected JSON");
  CHECK(error_of("1,\"1,\"\"c\"\":2\"", table(',', "b")) ==
        "invalid_json: column b: found 1,\"c\":2, expected JSON");
}

TEST_CASE("a row above the limit is one error record") {
  const TempDir dir;
  std::string text =
      "a,b\n1,\"" + std::string(static_cast<size_t>(kMaxLineBytes), '\n') + "\"\n3,4\n";
  write_file(dir / "in", text);
  const int64_t behind = 3 + kMaxLineBytes;
  CHECK(rows_of(dir / "in", table()) ==
        Rows{"2 line_too_long", fmt::format("{} {{\"a\":\"3\",\"b\":\"4\"}}", behind)});
}

TEST_CASE("cells of columns of JSON are values") {
  CHECK(rows_of_text(
            "id,\"x,y\",n\n1,\"{\"\"k\"\": [1,\r\n2]}\",7\n2,,\" \"\n3,\"\"\"s\"\"\",-1e3\n",
            table(',', "n,\"x,y\"")) == Rows{"2 {\"id\":\"1\",\"x,y\":{\"k\": [1,  2]},\"n\":7}",
                                             "4 {\"id\":\"2\",\"x,y\":null,\"n\":null}",
                                             "5 {\"id\":\"3\",\"x,y\":\"s\",\"n\":-1e3}"});
}

TEST_CASE("a table with a wrong header is refused") {
  const std::string empty = "is empty, expected a header with the names of columns";
  CHECK(refusal_of("") == empty);
  CHECK(refusal_of("\r\n\n") == empty);
  CHECK(refusal_of("\xEF\xBB\xBF") == empty);
  CHECK(refusal_of(",prompt\n0,a\n") == "the header: column 1 of 2 has no name; expected one");
  CHECK(refusal_of("a,b,\n") == "the header: column 3 of 3 has no name; expected one");
  CHECK(refusal_of("a,b,\"a\"\n") ==
        "the header: columns 1 and 3 are both called a; expected names that differ");
  CHECK(refusal_of("a,\"b\n1,2\n").starts_with("the header: cell 2: found a quote that opens it"));
  CHECK(refusal_of("a\xFF\n") == "the header: the line is not UTF-8 at its byte 2");
  CHECK(refusal_of("a\rb\rc\r").starts_with("the header: the name of column 1 has a carriage"));
  CHECK(refusal_of("{\"prompt\": \"a\"}\n") ==
        "the header: found {\"prompt\": \"a\"}, expected names of columns; --input-format jsonl "
        "reads JSON lines");
  CHECK(refusal_of("a,b\n1,2\n", table(',', "b,c"))
            .ends_with("has no such column; expected one of a, b"));
  CHECK(refusal_of("PK\x03\x04...").starts_with("is a zip archive, expected CSV or TSV; "));
}
