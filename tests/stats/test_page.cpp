// The tables of numbers in docs/statistics.md are made of the rows of statistics.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "stats/statistics.h"
#include "tests/support/paths.h"
#include "tests/support/support.h"

namespace pagedinfer {
namespace {

std::string_view word_of(Unit unit) {
  switch (unit) {
    case Unit::kCount: return "count";
    case Unit::kBytes: return "bytes";
    case Unit::kSeconds: return "s";
    case Unit::kMilliseconds: return "ms";
    case Unit::kPerSecond: return "per s";
    case Unit::kShare: return "0 to 1";
    case Unit::kNumber:
    case Unit::kAmount: return "number";
    case Unit::kText:
    case Unit::kJson: return "";
  }
  return "";
}

template <class Of>
std::string name_of(const Statistic<Of>& row, const Of& of) {
  const bool is_spread = std::holds_alternative<Spread>(row.get(of));
  return is_spread ? fmt::format("`X_{}_ms`", row.name) : fmt::format("`{}`", row.name);
}

template <class Of>
std::string table_of(const auto& rows, const Of& of) {
  std::string table = "| field | unit | what it is |\n|---|---|---|\n";
  for (const Statistic<Of>& row : rows) {
    table += fmt::format("| {} | {} | {} |\n", name_of(row, of), word_of(row.unit), row.help);
  }
  return table;
}

std::string closing_table() {
  std::string table = "| row | numbers |\n|---|---|\n", name;
  for (const Statistic<Summary>& row : summary_statistics()) {
    const std::string field = name_of(row, {});
    const Shown& shown = row.shown;
    if (shown.row.empty() && shown.words.empty() && row.name != "failed_by_code") continue;
    if (shown.row.empty() || shown.row == name) {
      table.insert(table.size() - 3, ", " + field);
    } else {
      name = shown.row;
      table += fmt::format("| {} | {} |\n", name, field);
    }
  }
  return table;
}

// Puts the table in place of the lines between its mark and the next empty line.
void replace(std::string& page, const std::string& what, const std::string& table) {
  const std::string mark = fmt::format("<!-- rows: {} -->\n", what);
  const size_t at = page.find(mark);
  REQUIRE(at != std::string::npos);
  const size_t begin = at + mark.size();
  const size_t end = page[begin] == '\n' || begin == page.size() ? begin : page.find("\n\n", begin);
  page.replace(begin, end == std::string::npos ? end : end - begin + (page[begin] != '\n'), table);
}

TEST_CASE("docs/statistics.md says what the rows of statistics say") {
  const std::string path = source_dir() + "/docs/statistics.md", found = read_file(path);
  std::string page = found;
  replace(page, "closing", closing_table());
  replace(page, "request", table_of<RequestStats>(request_statistics(), {}));
  replace(page, "step", table_of<StepStats>(step_statistics(), {}));
  replace(page, "summary", table_of<Summary>(summary_statistics(), {}));
  replace(page, "profile", table_of<Profile>(profile_statistics(), {}));
  replace(page, "op", table_of<OpProfile>(op_statistics(), {}));
  if (page == found) return;
  const auto made = std::filesystem::absolute("statistics.md");
  write_file(made, page);
  FAIL("the rows say something else: cp " << made.string() << " " << path);
}

}  // namespace
}  // namespace pagedinfer
