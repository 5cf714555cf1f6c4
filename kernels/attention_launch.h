// Between the files of attention; not for others.
#pragma once

#include "kernels/attention.h"
#include "kernels/attention_state.h"

namespace pagedinfer::kernels {

// One launch of tiles of one size, or of the combine step after it.
struct TileArgs {
  Type type;
  const void *q, *k, *v;
  void* out;
  int64_t q_stride, out_stride, num_positions;
  int kv_heads, group;
  float scale_log2;  // of scores in base 2
  int window;
  const int32_t *positions, *query_starts, *block_table;
  int max_blocks;
  BlockWalk walk;
  int tile_rows, max_shared_bytes;
  const AttentionItem* items;
  const AttentionCombine* combines;
  int num_items, num_combines;
  // (states, kv_heads), and the same by head_dim
  AttentionState* states;
  float* state_outs;
};

void launch_tiles_64(const TileArgs& args, cudaStream_t stream);
void launch_tiles_80(const TileArgs& args, cudaStream_t stream);
void launch_tiles_96(const TileArgs& args, cudaStream_t stream);
void launch_tiles_128(const TileArgs& args, cudaStream_t stream);
void launch_tiles_256(const TileArgs& args, cudaStream_t stream);
void launch_combine(const TileArgs& args, int head_dim, cudaStream_t stream);
void launch_slow_attention(const AttentionArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
