#include "text/tokenizer.h"

#include <algorithm>

namespace pagedinfer {

bool WrittenParts::hold(size_t begin, size_t end) const {
  const auto after = std::ranges::upper_bound(ranges, begin, {}, &TextRange::begin);
  return after != ranges.begin() && end <= std::prev(after)->end;
}

bool WrittenParts::touch(size_t begin, size_t end) const {
  return std::ranges::any_of(
      ranges, [&](const TextRange& range) { return range.begin < end && begin < range.end; });
}

}  // namespace pagedinfer
