#include "io/run_mark.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace pagedinfer {

namespace {

constexpr size_t kLinesAt = 9, kLinesSize = 12, kHashAt = 30, kHashSize = 16;

template <class T>
void read_number(std::string_view text, T& number, int base) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::from_chars(text.data(), text.data() + text.size(), number, base);
}

}  // namespace

std::string mark_line(const RunMark& mark) {
  std::string line = fmt::format(R"({{"lines":{:12},"hash":"{:016x}")", mark.lines, mark.hash);
  line += fmt::format(",\"check\":\"{:016x}\"}}\n", hash_bytes(0, line));
  return line;
}

std::optional<RunMark> parse_mark(std::string_view line) {
  if (line.size() != static_cast<size_t>(kMarkBytes)) return std::nullopt;
  RunMark mark;
  read_number(line.substr(kLinesAt, kLinesSize), mark.lines, 10);
  read_number(line.substr(kHashAt, kHashSize), mark.hash, 16);
  if (mark_line(mark) != line) return std::nullopt;
  return mark;
}

}  // namespace pagedinfer
