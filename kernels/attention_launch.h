// Private to the attention kernels: what their files share.
#pragma once

#include "kernels/attention.h"
#include "kernels/attention_state.h"

namespace pagedinfer::kernels {

// One launch of tiles of one size, or of the combine kernel after it. Pointers and sizes are those
// of AttentionArgs.
struct TileArgs {
  Type type;
  const void *q, *k, *v;
  void* out;
  int64_t q_stride, out_stride, num_positions;
  int kv_heads, group;  // group: query heads per KV head
  float scale_log2;     // scale * log2(e): weights are powers of 2
  int window;
  const int32_t *positions, *query_starts, *block_table;
  int max_blocks;
  BlockDivisor block_divisor;
  int tile_rows, max_shared_bytes;
  const AttentionItem* items;
  const AttentionCombine* combines;
  int num_items, num_combines;
  AttentionState* states;  // (num_states, kv_heads)
  float* state_outs;       // (num_states, kv_heads, head_dim)
};

void launch_tiles_64(const TileArgs& args, cudaStream_t stream);
void launch_tiles_80(const TileArgs& args, cudaStream_t stream);
void launch_tiles_96(const TileArgs& args, cudaStream_t stream);
void launch_tiles_128(const TileArgs& args, cudaStream_t stream);
void launch_tiles_256(const TileArgs& args, cudaStream_t stream);
void launch_combine(const TileArgs& args, int head_dim, cudaStream_t stream);
void launch_slow_attention(const AttentionArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
