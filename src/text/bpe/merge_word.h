#pragma once

#include <vector>

#include "text/bpe/merge_table.h"

namespace pagedinfer {

// Merges neighbours in `symbols` until no pair of them is in the table: always the pair of the
// lowest rank, of equals the leftmost. Returns the number of pairs looked at: O(n) of them, in
// O(n log n) time.
int64_t merge_word(const MergeTable& merges, std::vector<TokenId>& symbols);

}  // namespace pagedinfer
