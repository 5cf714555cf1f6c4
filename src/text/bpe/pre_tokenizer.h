#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe/regex.h"

namespace pagedinfer {

// A text in pieces that lie side by side.
struct Pieces {
  std::string text = {};
  std::vector<size_t> ends = {};  // of the pieces in `text`, ascending
  bool at_start = false;          // the first piece begins where the whole prompt does
};

// Cuts pieces into smaller ones, and may change them.
using PreTokenizerStep = std::function<void(Pieces&)>;

// What becomes of the separators that a split finds.
enum class SplitBehavior : uint8_t {
  kRemoved,
  kIsolated,            // a piece of its own each
  kMergedWithPrevious,  // the end of the piece before it
  kMergedWithNext,      // the beginning of the piece behind it
  kContiguous,          // separators side by side are one piece
};

// With `invert`, what lies between the matches are the separators.
PreTokenizerStep split_at(std::shared_ptr<const Regex> pattern, SplitBehavior behavior,
                          bool invert);
PreTokenizerStep split_at(std::string literal, SplitBehavior behavior, bool invert);

// A space in front of every piece that begins with none.
PreTokenizerStep add_prefix_space();

enum class PrependScheme : uint8_t { kAlways, kFirst, kNever };

// Puts `mark` for every space, and in front of pieces that do not begin with it: of all pieces,
// or of the one that begins where the prompt does. `split`: a piece begins at every mark.
PreTokenizerStep metaspace(std::string mark, PrependScheme prepend, bool split);

}  // namespace pagedinfer
