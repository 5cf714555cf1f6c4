// Speed of reading and parsing valid lines of 2 KB from the page cache on one core: the median of
// seven rounds, beside reading the same bytes from memory.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "bench_support.h"
#include "core/error.h"
#include "io/line_reader.h"
#include "request/request_parser.h"

namespace pagedinfer {
namespace {

constexpr int kTimes = 7;

// Lines whose prompts have some escaped characters.
std::string make_lines(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    lines += fmt::format(R"({{"id":"request {}","prompt":")", i);
    for (size_t begin = lines.size(); lines.size() - begin < 1900;) {
      lines += fmt::format("The {}th of the foxes went over the hill and far away. ", i);
      if (i % 2 == 0) lines += "She said: \\\"No\\\".\\n";
    }
    lines += "\",\"max_tokens\":64,\"temperature\":0.5,\"stop\":[\"\\n\\n\"]}\n";
  }
  return lines;
}

void measure() {
  const std::string lines = make_lines(32 << 10);
  const std::string path = std::filesystem::temp_directory_path() / "pagedinfer-parse-bench.jsonl";
  std::ofstream(path) << lines;
  const auto gb = static_cast<double>(lines.size()) * 1e-9;
  const auto read_memory = [&] { read_piece(lines.data(), static_cast<int64_t>(lines.size())); };
  const auto show = [&](const char* what, const auto& work) {
    const Pair medians = pagedinfer::medians(Clock::kThread, kTimes, work, read_memory);
    fmt::print("{:<20} {:.2f} GB/s (reading memory: {:.1f} GB/s)\n", what, gb / medians.work,
               gb / medians.bound);
  };

  show("parse", [&] {
    RequestParser parser({});
    std::string_view left = lines;
    for (int64_t i = 0; !left.empty(); ++i) {
      const size_t end = left.find('\n');
      // The lines that follow serve as padding; the last ones have none and are skipped.
      const bool is_last = left.size() < end + 1 + size_t{kLinePadding};
      if (!is_last && parser.parse(left.substr(0, end), i, i + 1).failed()) std::abort();
      left.remove_prefix(end + 1);
    }
  });
  show("read lines", [&] {
    LineReader reader(path);
    while (reader.next()) continue;
  });
  show("read lines and parse", [&] {
    LineReader reader(path);
    RequestParser parser({});
    for (int64_t i = 0; const auto line = reader.next(); ++i) {
      if (parser.parse(line->text, i, line->number).failed()) std::abort();
    }
  });
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace pagedinfer

int main() {
  try {
    pagedinfer::measure();
    return 0;
  } catch (const pagedinfer::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
