// Causal attention over a cache that a block table describes: whole prompts, chunks at any offset
// and decode steps, with the paged and the contiguous pool. With `restarts` the bits of an output
// row depend only on its row of q and on the keys and values that it sees, not on the plan, the
// batch, the chunk, the block size or the pool. Without it, the bits of a row in a tile of many
// rows depend on whether the plan cuts the tile.
//
// The softmax is computed in float32. It restarts every kSegmentKeys keys, and the segments are
// combined in ascending order. The last thread block of a cut tile combines the tile's segments.
// bfloat16 and float16 with a head_dim of 64, 80, 96, 128 or 256 run on tensor cores, unless scores
// are capped; there the probabilities are rounded to the type before the product with V. Everything
// else runs a slow float32 kernel, which ignores the plan. On devices that give a thread block
// 99 KiB of shared memory (sm_86, sm_89), not 163 KiB or more, prompts with a head_dim of 256 are
// slower, with the same bits, and an int8 cache with that head_dim runs the slow kernel.
#pragma once

#include "kernels/attention_plan.h"
#include "kernels/kv_layout.h"
#include "kernels/types.h"

namespace pagedinfer::kernels {

// The items of AttentionTiles in device memory.
struct AttentionWork {
  const AttentionItem* items;
  int num_items;
};

struct AttentionArgs {
  Type type;      // of q and out, and of the cache unless it is int8
  Matrix q, out;  // (num_tokens, heads * head_dim)
  KvCache cache;
  int heads;
  float scale;
  int window;            // keys a query sees, its own included; 0 = all
  float softcap = 0.0f;  // a score becomes softcap * tanh(score / softcap); 0: it stays
  const float* sinks =
      nullptr;                  // (heads): the score of a further key, whose value is 0; or nullptr
  const int32_t* positions;     // (num_tokens)
  const int32_t* query_starts;  // (num_seqs + 1)
  const int32_t* block_table;   // (num_seqs, max_blocks): first positions of blocks
  int num_tokens, num_seqs, max_blocks, block_size;
  AttentionWork small, large;  // of the plan for this window
  int64_t num_states;          // of that plan
  int max_shared_bytes;        // per thread block: the device's opt-in limit
  bool restarts = true;        // of the softmax, in tiles of many rows too; slower
  void* workspace;     // attention_workspace_bytes(), 16-byte aligned; used until the kernels end
  uint32_t* counters;  // attention_counters(), all 0; they are 0 again when the kernels end
};

// True if launch_attention() runs the slow kernel, which needs neither plan nor workspace.
bool attention_is_slow(const AttentionArgs& args);
int64_t attention_workspace_bytes(int64_t num_states, int kv_heads, int head_dim);
// The number of AttentionArgs::counters for a plan with `num_cuts` cut tiles of each size.
int64_t attention_counters(int64_t num_cuts, int kv_heads);
void launch_attention(const AttentionArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
