// Random batches for tests of the CUDA backend.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/batch.h"
#include "tests/support/ops_support.h"

namespace pagedinfer {

// A batch within the bounds. Its token ids and cache positions are arbitrary numbers.
inline Batch random_batch(Random& random, const StepBounds& bounds) {
  Batch batch = {.query_starts = {0}, .block_size = bounds.block_size};
  int64_t left = bounds.tokens;
  std::vector<std::pair<int, int>> chunks;  // first position, count
  const int sequences = random.between(1, static_cast<int>(bounds.sequences));
  for (int s = 0; s < sequences && left > 0; ++s) {
    const int count =
        random.below(2) ? 1 : random.between(1, static_cast<int>(std::min(left, bounds.context)));
    const int first = random.between(0, static_cast<int>(bounds.context) - count);
    chunks.emplace_back(first, count);
    left -= count;
    batch.max_blocks = std::max(batch.max_blocks, (first + count - 1) / bounds.block_size + 1);
  }
  for (const auto& [first, count] : chunks) {
    for (int p = first; p < first + count; ++p) {
      batch.tokens.push_back(random.below(1000));
      batch.positions.push_back(p);
      batch.slot_mapping.push_back(random.below(100000));
    }
    batch.query_starts.push_back(batch.num_tokens());
    batch.context_lens.push_back(first + count);
    batch.logit_tokens.push_back(batch.num_tokens() - 1);
    for (int b = 0; b < batch.max_blocks; ++b) batch.block_table.push_back(random.below(1000));
  }
  return batch;
}

// A batch within the bounds of decodes only.
inline Batch random_decodes(Random& random, const StepBounds& bounds) {
  Batch batch = {.query_starts = {0}, .block_size = bounds.block_size};
  const int most = static_cast<int>(std::min(bounds.sequences, bounds.tokens));
  const int sequences = random.between(1, most);
  const int longest = random.between(1, static_cast<int>(bounds.context));
  batch.max_blocks = (longest - 1) / bounds.block_size + 1;
  for (int s = 0; s < sequences; ++s) {
    const int position = s == 0 ? longest - 1 : random.below(longest);
    batch.tokens.push_back(random.below(1000));
    batch.positions.push_back(position);
    batch.slot_mapping.push_back(random.below(100000));
    batch.logit_tokens.push_back(s);
    batch.query_starts.push_back(s + 1);
    batch.context_lens.push_back(position + 1);
    for (int b = 0; b < batch.max_blocks; ++b) {
      batch.block_table.push_back(b <= position / bounds.block_size ? random.below(1000) : -1);
    }
  }
  return batch;
}

}  // namespace pagedinfer
