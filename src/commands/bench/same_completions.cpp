#include "commands/bench/same_completions.h"

#include <cerrno>
#include <fstream>

#include "io/open_file.h"

namespace pagedinfer {
namespace {

std::ifstream open(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw cannot_open(path, errno);
  return file;
}

}  // namespace

std::optional<int64_t> first_difference(const std::string& a, const std::string& b) {
  std::ifstream first = open(a), second = open(b);
  std::string line, other;
  for (int64_t number = 1;; ++number) {
    const bool has_line = static_cast<bool>(std::getline(first, line));
    const bool has_other = static_cast<bool>(std::getline(second, other));
    if (!has_line && !has_other) return std::nullopt;
    // A last line without a newline differs from the same line with one.
    if (has_line != has_other || line != other || first.eof() != second.eof()) return number;
  }
}

}  // namespace pagedinfer
