// A simple reference for LineReader: splits a whole input as its contract says.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pagedinfer {

struct NumberedLine {
  std::string text;
  int64_t number;
  bool operator==(const NumberedLine&) const = default;
};

// The lines that are not blank. Of a line longer than `limit` bytes, its first limit + 1 bytes.
inline std::vector<NumberedLine> split(std::string_view input, int64_t limit) {
  std::vector<NumberedLine> lines;
  if (input.starts_with("\xEF\xBB\xBF")) input.remove_prefix(3);
  for (int64_t number = 1; !input.empty(); ++number) {
    std::string line(input.substr(0, input.find('\n')));
    input.remove_prefix(std::min(line.size() + 1, input.size()));
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const bool too_long = static_cast<int64_t>(line.size()) > limit;
    if (too_long) line.resize(static_cast<size_t>(limit + 1));
    if (too_long || line.find_first_not_of(" \t\r") != std::string::npos) {
      lines.push_back({line, number});
    }
  }
  return lines;
}

}  // namespace pagedinfer
