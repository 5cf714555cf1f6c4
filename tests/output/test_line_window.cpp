#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "output/line_window.h"

namespace pagedinfer {

TEST_CASE("a line window finds every line, in any order and of any length") {
  std::mt19937 random(5);
  for (const int64_t max_bytes : {1, 100, 20000}) {
    std::string file = "header\n";
    std::vector<int64_t> offsets;
    std::vector<std::string> lines;
    for (int i = 0; i < 300; ++i) {
      offsets.push_back(static_cast<int64_t>(file.size()));
      lines.emplace_back(random() % 10 == 0 ? random() % 30000 : random() % 300,
                         char('a' + i % 26));
      file += lines.back() += '\n';
    }
    const auto end = static_cast<int64_t>(file.size());
    const auto read = [&](int64_t offset, char* data, int64_t size) {
      REQUIRE(offset >= 7);
      REQUIRE(size > 0);
      REQUIRE(offset + size <= end);
      std::copy_n(file.begin() + offset, size, data);
    };
    LineWindow window(7, max_bytes);
    for (int i = 0; i < 300; ++i) {
      REQUIRE(window.line_at(offsets[size_t(i)], end, read) == lines[size_t(i)]);
    }
    for (int i = 0; i < 300; ++i) {
      const size_t any = random() % 300;
      REQUIRE(window.line_at(offsets[any], end, read) == lines[any]);
    }
    // A line whose end is not there.
    window.clear();
    CHECK(window.line_at(offsets[299], end - 1, read).empty());
  }
}

}  // namespace pagedinfer
