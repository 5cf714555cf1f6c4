#include "stats/table.h"

#include <fmt/ranges.h>

#include <cmath>
#include <initializer_list>
#include <vector>

#include "core/refusal.h"

namespace pagedinfer {
namespace {

std::string columns(const std::string& name, std::initializer_list<std::string> cells) {
  std::string out = fmt::format("{:<13}", name);
  for (const std::string& cell : cells) out += fmt::format("{:>10}", cell);
  return out + "\n";
}

}  // namespace

std::string table_row(std::string_view name, const std::string& text) {
  return fmt::format("{:<13}{}\n", name, text);
}

std::string spread_heading() { return columns("", {"mean", "p50", "p90", "p99", "max"}); }

std::string spread_row(const std::string& name, const Spread& spread) {
  return columns(name,
                 {human_seconds(spread.mean), human_seconds(spread.p50), human_seconds(spread.p90),
                  human_seconds(spread.p99), human_seconds(spread.max)});
}

std::string percent(double ratio) { return fmt::format("{:.1f} %", 100 * ratio); }

std::string three_digits(double number) {
  const double size = std::abs(number);
  if (size < 9.995) return fmt::format("{:.2f}", number);
  if (size < 99.95) return fmt::format("{:.1f}", number);
  return grouped(std::llround(number));
}

std::string human_seconds(double seconds) {
  if (seconds < 0.9995e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.9995) return three_digits(seconds * 1e3) + " ms";
  if (seconds < 99.95) return three_digits(seconds) + " s";
  return clock_time(seconds);
}

std::string clock_time(double seconds) {
  const int64_t whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string shown(Unit unit, double number) {
  switch (unit) {
    case Unit::kCount:
    case Unit::kBytes: return grouped(std::llround(number));
    case Unit::kSeconds:
    case Unit::kMilliseconds: return human_seconds(number);
    case Unit::kShare: return percent(number);
    default: return three_digits(number);
  }
}

double number_of(const Measure& measure) {
  if (const auto* const count = std::get_if<int64_t>(&measure)) return static_cast<double>(*count);
  const auto* const number = std::get_if<double>(&measure);
  return number != nullptr ? *number : 0;
}

std::string summary_table(std::string_view model, const Summary& summary) {
  std::vector<std::string> lines = {table_row("model", std::string(model))};
  std::string_view row;  // of the last one
  bool has_heading = false;
  for (const Statistic<Summary>& statistic : summary_statistics()) {
    const Shown& place = statistic.shown;
    const Measure measure = statistic.get(summary);
    if (const auto* const spread = std::get_if<Spread>(&measure)) {
      if (place.row.empty() || spread->count == 0) continue;
      if (!has_heading) lines.push_back(spread_heading());
      has_heading = true;
      lines.push_back(spread_row(std::string(place.row), *spread));
    } else if (const auto* const counts = std::get_if<Counts>(&measure)) {
      for (const auto& [code, count] : *counts) {
        lines.push_back(table_row(place.row, fmt::format("{} {}", grouped(count), code.name())));
      }
    } else if (const double number = number_of(measure);
               !place.words.empty() && (number != 0 || lines.size() == 1)) {
      const std::string text =
          fmt::format(fmt::runtime(place.words), shown(statistic.unit, number));
      if (!lines.empty() && row == place.row) {
        lines.back().insert(lines.back().size() - 1, ", " + text);
      } else {
        lines.push_back(table_row(place.row, text));
      }
    } else {
      continue;
    }
    row = place.row;
  }
  return fmt::format("{}", fmt::join(lines, ""));
}

}  // namespace pagedinfer
