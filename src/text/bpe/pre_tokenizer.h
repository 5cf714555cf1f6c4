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

// A text, split into adjacent pieces.
struct Pieces {
  std::string text = {};
  std::vector<size_t> ends = {};  // of the pieces in `text`, ascending
  bool at_start = false;          // the first piece begins where the whole prompt does
};

// Splits pieces further and may change their text.
using PreTokenizerStep = std::function<void(Pieces&)>;

// What a split does with the separators that it finds.
enum class SplitBehavior : uint8_t {
  kRemoved,
  kIsolated,            // each becomes a piece
  kMergedWithPrevious,  // each is appended to the piece before it
  kMergedWithNext,      // each is prepended to the piece behind it
  kContiguous,          // adjacent separators become one piece
};

// Splits at matches of the pattern, or with `invert` at the text between matches.
PreTokenizerStep split_at(std::shared_ptr<const Regex> pattern, SplitBehavior behavior,
                          bool invert);
PreTokenizerStep split_at(std::string literal, SplitBehavior behavior, bool invert);

// Prepends a space to every piece that does not begin with one.
PreTokenizerStep add_prefix_space();

enum class PrependScheme : uint8_t { kAlways, kFirst, kNever };

// Replaces every space by `mark` and prepends `mark` to pieces that do not begin with it: to all of
// them (kAlways) or to the one at the start of the prompt (kFirst). With `split`, splits before
// every mark.
PreTokenizerStep metaspace(std::string mark, PrependScheme prepend, bool split);

}  // namespace pagedinfer
