// Private to the attention kernels: what their files share.
#pragma once

#include "kernels/attention.h"
#include "kernels/attention_state.h"

namespace pagedinfer::kernels {

// The maximum number of thread blocks that compute a tile, each some of its rows.
constexpr int kMaxPartsOfTile = kLargeTileRows / kSmallTileRows;

// Bytes of shared memory that a thread block has on every device or, for wide heads of int8, must
// have.
constexpr int int8_tile_bytes(int head_dim) { return (head_dim > 128 ? 163 : 99) << 10; }

constexpr float kLog2E = 1.44269504088896341f;

// One launch of tiles of one size. Pointers and sizes are those of AttentionArgs.
struct TileArgs {
  Type type;
  const void *q, *k, *v;
  const float *k_scale, *v_scale;
  void* out;
  int64_t q_stride, out_stride, num_positions;
  int kv_heads, group;  // group: query heads per KV head
  float scale_log2;     // scale * log2(e): weights are powers of 2
  int window;
  const float* sinks;  // of AttentionArgs
  const int32_t* block_table;
  int max_blocks;
  BlockDivisor block_divisor;
  int tile_rows, max_shared_bytes;
  bool restarts;  // of AttentionArgs
  const AttentionItem* items;
  int num_items;
  AttentionState* states;  // (num_states, kv_heads)
  float* state_outs;       // (num_states, kv_heads, head_dim)
  // (cuts, kv_heads, kMaxPartsOfTile) Thread blocks that have written their states of a cut tile.
  uint32_t* counters;
};

void launch_tiles_64(const TileArgs& args, cudaStream_t stream);
void launch_tiles_80(const TileArgs& args, cudaStream_t stream);
void launch_tiles_96(const TileArgs& args, cudaStream_t stream);
void launch_tiles_128(const TileArgs& args, cudaStream_t stream);
void launch_tiles_256(const TileArgs& args, cudaStream_t stream);
void launch_slow_attention(const AttentionArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
