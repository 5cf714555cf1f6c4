#pragma once

#include <vector>

#include "text/bpe/merge_table.h"

namespace pagedinfer {

// Merges adjacent symbols until no pair of them is in the table: always the pair of the lowest
// rank, of equal ranks the leftmost. O(n log n) time. Returns the number of pairs looked up, which
// is O(n).
int64_t merge_word(const MergeTable& merges, std::vector<TokenId>& symbols);

}  // namespace pagedinfer
