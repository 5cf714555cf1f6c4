#include "sched/batch_builder.h"

#include <algorithm>

#include "core/check.h"

namespace pagedinfer {
namespace {

void clear(Batch& batch) {
  for (auto* column : {&batch.tokens, &batch.positions, &batch.slot_mapping, &batch.query_starts,
                       &batch.context_lens, &batch.block_table, &batch.logit_tokens}) {
    column->clear();
  }
}

int num_context_blocks(const Chunk& chunk, int block_size) {
  return (chunk.start + chunk.count - 1) / block_size + 1;
}

}  // namespace

void build_batch(const StepPlan& plan, std::span<const Sequence* const> sequences, int block_size,
                 Batch& batch) {
  CHECK(sequences.size() == plan.chunks.size());
  clear(batch);
  batch.copies = plan.copies;
  batch.block_size = block_size;
  batch.max_blocks = 0;
  for (const Chunk& chunk : plan.chunks) {
    batch.max_blocks = std::max(batch.max_blocks, num_context_blocks(chunk, block_size));
  }

  batch.query_starts.push_back(0);
  for (size_t i = 0; i < plan.chunks.size(); ++i) {
    const Chunk& chunk = plan.chunks[i];
    const Sequence& seq = *sequences[i];
    const int end = chunk.start + chunk.count;
    CHECK(chunk.count > 0);  // an empty chunk has no hidden state to take logits from
    for (int p = chunk.start; p < end; ++p) {
      batch.tokens.push_back(seq.tokens[p]);
      batch.positions.push_back(p);
      const bool is_cached = p < seq.lease.num_cached;  // in a block that others may hold
      batch.slot_mapping.push_back(is_cached ? -1 : seq.lease.slot(p, block_size));
    }
    for (int row = chunk.num_logits; row > 0; --row) {
      batch.logit_tokens.push_back(batch.num_tokens() - row);
    }
    batch.query_starts.push_back(batch.num_tokens());
    batch.context_lens.push_back(end);
    const auto first = seq.lease.block_table.begin();
    batch.block_table.insert(batch.block_table.end(), first,
                             first + num_context_blocks(chunk, block_size));
    batch.block_table.resize(static_cast<size_t>(batch.num_seqs()) * batch.max_blocks, -1);
  }
}

}  // namespace pagedinfer
