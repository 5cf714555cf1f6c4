// Causal attention by position over the block table: prompts, chunks at any offset and decoding,
// from any pool. A query's bits depend on its row of q and the visible keys and values only, not
// on how it was planned, batched or chunked, nor on block size or pool.
//
// Softmax in float32, restarted every kSegmentKeys keys and combined in ascending order. With
// bfloat16 or float16 and a head_dim of 64, 80, 96, 128 or 256 on tensor cores, p rounded to the
// type for the product with V; else a slow kernel in float32, which ignores the plan. Prompts with
// heads of 256 dimensions are slower where a block has 99 KiB of shared memory, as on sm_86 and
// sm_89, than where it has 163 and more; the bits are the same.
#pragma once

#include "kernels/attention_plan.h"
#include "kernels/kv_layout.h"
#include "kernels/types.h"

namespace pagedinfer::kernels {

// AttentionTiles on the device.
struct AttentionWork {
  const AttentionItem* items;
  const AttentionCombine* combines;
  int num_items, num_combines;
};

struct AttentionArgs {
  Type type;      // of q, the cache and out
  Matrix q, out;  // (num_tokens, heads * head_dim)
  KvCache cache;
  int heads;
  float scale;
  int window;                   // keys a query sees, its own included; 0 = all
  const int32_t* positions;     // (num_tokens)
  const int32_t* query_starts;  // (num_seqs + 1)
  const int32_t* block_table;   // (num_seqs, max_blocks): first positions of blocks
  int num_tokens, num_seqs, max_blocks, block_size;
  AttentionWork small, large;
  int64_t num_states;    // of the plan
  int max_shared_bytes;  // that the device lets a block have: its opt-in limit
  void* workspace;  // attention_workspace_bytes(), 16-byte aligned; free after the launch's kernels
};

// True if the slow kernel runs, which needs neither plan nor workspace.
bool attention_is_slow(const AttentionArgs& args);
int64_t attention_workspace_bytes(int64_t num_states, int kv_heads, int head_dim);
void launch_attention(const AttentionArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
