// docs/records.md and docs/jobs.md list the error codes and exit codes that the program has.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <sstream>
#include <string>
#include <string_view>

#include "core/error_code.h"
#include "core/exit_codes.h"
#include "tests/support/paths.h"
#include "tests/support/support.h"

namespace pagedinfer {
namespace {

// The rows of the table below a heading of a page.
std::string rows_below(const std::string& page, const std::string& heading) {
  const std::string text = read_file(source_dir() + "/docs/" + page);
  const size_t begin = text.find("|---|", text.find("\n" + heading + "\n"));
  REQUIRE(begin != text.npos);
  const size_t rows = text.find('\n', begin) + 1;
  return text.substr(rows, text.find("\n\n", rows) + 1 - rows);
}

}  // namespace

TEST_CASE("the page of records lists every error code with its meaning") {
  std::string expected, found;
  for (const ErrorCodeRow& row : kErrorCodes) {
    expected += fmt::format("| `{}` | {} |\n", row.name, row.meaning);
  }
  // The third column says what helps.
  std::istringstream rows(rows_below("records.md", "## Error codes"));
  for (std::string row; std::getline(rows, row);) {
    const size_t last = row.rfind(" | ");
    CHECK(row.size() > last + 5);
    found += row.substr(0, last) + " |\n";
  }
  CHECK(found == expected);
}

TEST_CASE("the page of jobs lists every exit code with its meaning") {
  std::string expected;
  for (const ExitCodeRow& row : kExitCodes) {
    expected += fmt::format("| `{}` | {} | {} |\n", row.command, row.code, row.meaning);
  }
  CHECK(rows_below("jobs.md", "## Exit codes") == expected);
}

}  // namespace pagedinfer
