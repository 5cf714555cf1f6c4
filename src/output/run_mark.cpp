#include "output/run_mark.h"

#include <fmt/format.h>

#include <charconv>

namespace pagedinfer {

namespace {

// Reads the number after `key`, skipping blanks or a quotation mark. Leaves `number` unchanged if
// there is none.
template <class T>
void read_number(std::string_view line, std::string_view key, T& number, int base) {
  const size_t offset = line.find(key);
  if (offset == std::string_view::npos) return;
  line.remove_prefix(offset + key.size());
  const size_t begin = line.find_first_not_of(" \"");
  if (begin == std::string_view::npos) return;
  std::from_chars(line.data() + begin, line.data() + line.size(), number, base);
}

}  // namespace

std::string mark_line(const StateMark& mark) {
  std::string line = fmt::format(
      R"({{"serial":{:12},"lines":{:12},"hash":"{:016x}","bytes":{:15},"output":"{:016x}")",
      mark.serial, mark.input.lines, mark.input.hash, mark.output.bytes, mark.output.hash);
  line += fmt::format(",\"check\":\"{:016x}\"}}\n", hash_bytes(0, line));
  return line;
}

std::optional<StateMark> parse_mark(std::string_view line) {
  if (line.size() != static_cast<size_t>(kMarkBytes)) return std::nullopt;
  StateMark mark;
  read_number(line, "\"serial\":", mark.serial, 10);
  read_number(line, "\"lines\":", mark.input.lines, 10);
  read_number(line, "\"hash\":", mark.input.hash, 16);
  read_number(line, "\"bytes\":", mark.output.bytes, 10);
  read_number(line, "\"output\":", mark.output.hash, 16);
  if (mark_line(mark) != line) return std::nullopt;
  return mark;
}

}  // namespace pagedinfer
