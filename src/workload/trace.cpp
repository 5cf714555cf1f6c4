#include "workload/trace.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/numbers.h"
#include "core/refusal.h"

namespace pagedinfer {
namespace {

constexpr std::string_view kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens";
constexpr std::string_view kTime = "a time, as in 2023-11-16 18:17:03.9799600";
constexpr std::string_view kTokenCount = "a number of tokens, at least 1";

// Takes digits from the front of `text`.
std::optional<int> take_number(std::string_view& text, size_t digits) {
  if (text.size() < digits) return std::nullopt;
  const auto number = read_number<unsigned>(text.substr(0, digits));
  if (!number) return std::nullopt;
  text.remove_prefix(digits);
  return static_cast<int>(*number);
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

struct Moment {
  std::chrono::sys_seconds second;
  double fraction = 0;
};

double seconds_between(const Moment& from, const Moment& to) {
  return static_cast<double>((to.second - from.second).count()) + (to.fraction - from.fraction);
}

std::optional<Moment> read_time(std::string_view text) {
  const auto year = take_number(text, 4);
  if (!year || !take(text, '-')) return std::nullopt;
  const auto month = take_number(text, 2);
  if (!month || !take(text, '-')) return std::nullopt;
  const auto day = take_number(text, 2);
  if (!day || (!take(text, ' ') && !take(text, 'T'))) return std::nullopt;
  const auto hour = take_number(text, 2);
  if (!hour || !take(text, ':')) return std::nullopt;
  const auto minute = take_number(text, 2);
  if (!minute || !take(text, ':')) return std::nullopt;
  const auto second = take_number(text, 2);
  if (!second) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 59) return std::nullopt;
  Moment moment = {std::chrono::sys_days(date) + std::chrono::hours(*hour) +
                   std::chrono::minutes(*minute) + std::chrono::seconds(*second)};
  if (take(text, '.')) {
    if (text.empty()) return std::nullopt;
    for (double digit = 0.1; !text.empty(); digit /= 10) {
      const auto number = take_number(text, 1);
      if (!number) return std::nullopt;
      moment.fraction += *number * digit;
    }
  }
  return text.empty() ? std::optional(moment) : std::nullopt;
}

std::optional<int> read_tokens(std::string_view text) {
  const auto number = read_number<int>(text);
  return number && *number >= 1 ? number : std::nullopt;
}

// A longer line is cut off, which makes it wrong.
bool get_line(std::istream& from, std::string& line) {
  constexpr size_t kMaxLine = 256;
  line.clear();
  char c = 0;
  while (line.size() < kMaxLine && from.get(c) && c != '\n') line += c;
  if (line.empty() && !from) return false;
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

// The parts of a row, which has three; nullopt if it has another number of them.
std::optional<std::array<std::string_view, 3>> split(std::string_view row) {
  const size_t first = row.find(',');
  const size_t second = first == std::string_view::npos ? first : row.find(',', first + 1);
  if (second == std::string_view::npos || row.find(',', second + 1) != std::string_view::npos) {
    return std::nullopt;
  }
  return std::array{row.substr(0, first), row.substr(first + 1, second - first - 1),
                    row.substr(second + 1)};
}

}  // namespace

std::vector<TraceRow> read_trace(std::istream& from, const std::string& name, int count) {
  int number = 0;  // of the line
  const auto refuse = [&](std::string_view found, std::string_view expected) {
    return Error(refusal(fmt::format("{}: line {}", name, number), shortened(found), expected));
  };
  std::vector<TraceRow> rows;
  std::string line;
  ++number;
  if (!get_line(from, line) || line != kHeader) throw refuse(line, kHeader);
  std::optional<Moment> first;
  while (rows.size() < static_cast<size_t>(count)) {
    ++number;
    if (!get_line(from, line)) {
      throw Error(fmt::format("{}: found {} rows, expected at least {} (--requests)", name,
                              rows.size(), count));
    }
    const auto parts = split(line);
    if (!parts) throw refuse(line, fmt::format("three values: {}", kHeader));
    const auto moment = read_time((*parts)[0]);
    if (!moment) throw refuse((*parts)[0], kTime);
    if (!first) first = moment;
    const auto prompt = read_tokens((*parts)[1]), output = read_tokens((*parts)[2]);
    if (!prompt) throw refuse((*parts)[1], kTokenCount);
    if (!output) throw refuse((*parts)[2], kTokenCount);
    const double time = seconds_between(*first, *moment);
    if (!rows.empty() && time < rows.back().time) {
      throw refuse((*parts)[0], "a time that is not before that of the row above");
    }
    rows.push_back({time, *prompt, *output});
  }
  return rows;
}

std::vector<TraceRow> read_trace(const std::string& path, int count) {
  if (std::filesystem::is_directory(path)) {
    throw Error(fmt::format("{}: found a folder, expected a CSV file", path));
  }
  std::ifstream file(path);
  if (!file) throw Error(fmt::format("{}: {}", path, std::strerror(errno)));
  return read_trace(file, path, count);
}

}  // namespace pagedinfer
