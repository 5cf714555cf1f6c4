#include "core/near_name.h"

#include <algorithm>
#include <cstddef>

namespace pagedinfer {
namespace {

constexpr size_t kMaxEdits = 2;

// The edit distance of two words: letters inserted, removed, replaced or swapped with the next one.
size_t num_edits(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> edits(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        edits[i][j] = i + j;
        continue;
      }
      const size_t replaced = edits[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      edits[i][j] = std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
    }
  }
  return edits[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> near_name(std::string_view word, const std::vector<std::string>& names) {
  std::optional<std::string> nearest;
  size_t min_edits = kMaxEdits + 1;
  if (word.size() > 100) return nearest;
  for (const std::string& name : names) {
    const size_t edits = num_edits(word, name);
    if (edits >= min_edits || 3 * edits > name.size()) continue;
    min_edits = edits;
    nearest = name;
  }
  return nearest;
}

}  // namespace pagedinfer
