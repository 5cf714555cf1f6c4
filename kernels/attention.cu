// Chooses and launches the kernels of attention.
#include "kernels/attention.h"
#include "kernels/attention_launch.h"
#include "kernels/common.cuh"

namespace pagedinfer::kernels {
namespace {

void launch_tiles(int head_dim, const TileArgs& args, cudaStream_t stream) {
  if (args.num_items == 0) return;
  switch (head_dim) {
    case 64: launch_tiles_64(args, stream); break;
    case 80: launch_tiles_80(args, stream); break;
    case 96: launch_tiles_96(args, stream); break;
    case 128: launch_tiles_128(args, stream); break;
    default: launch_tiles_256(args, stream); break;
  }
}

}  // namespace

bool attention_is_slow(const AttentionArgs& args) {
  const int dim = args.cache.head_dim;
  const bool has_tiles = dim == 64 || dim == 80 || dim == 96 || dim == 128 || dim == 256;
  const bool has_room = !args.cache.is_int8() || args.max_shared_bytes >= int8_tile_bytes(dim);
  return args.type == Type::kF32 || !has_tiles || !has_room || args.softcap > 0 ||
         !in_vectors(args.type, args.q, dim) || !in_vectors(args.type, args.out, dim);
}

int64_t attention_workspace_bytes(int64_t num_states, int kv_heads, int head_dim) {
  return num_states * kv_heads *
         (int64_t{sizeof(AttentionState)} + head_dim * int64_t{sizeof(float)});
}

int64_t attention_counters(int64_t num_cuts, int kv_heads) {
  return num_cuts * kv_heads * kMaxPartsOfTile;
}

void launch_attention(const AttentionArgs& args, cudaStream_t stream) {
  if (args.num_tokens == 0) return;
  if (attention_is_slow(args)) return launch_slow_attention(args, stream);
  const int dim = args.cache.head_dim, kv_heads = args.cache.kv_heads;
  TileArgs tiles = {.type = args.type,
                    .q = args.q.data,
                    .k = args.cache.k,
                    .v = args.cache.v,
                    .k_scale = args.cache.k_scale,
                    .v_scale = args.cache.v_scale,
                    .out = args.out.data,
                    .q_stride = args.q.stride,
                    .out_stride = args.out.stride,
                    .num_positions = args.cache.num_positions,
                    .kv_heads = kv_heads,
                    .group = args.heads / kv_heads,
                    .scale_log2 = args.scale * kLog2E,
                    .window = args.window,
                    .sinks = args.sinks,
                    .block_table = args.block_table,
                    .max_blocks = args.max_blocks,
                    .block_divisor = block_divisor(args.block_size),
                    .max_shared_bytes = args.max_shared_bytes,
                    .restarts = args.restarts,
                    .counters = args.counters};
  tiles.state_outs = static_cast<float*>(args.workspace);
  tiles.states =
      reinterpret_cast<AttentionState*>(tiles.state_outs + args.num_states * kv_heads * dim);
  const auto launch = [&](const AttentionWork& work, int tile_rows) {
    tiles.tile_rows = tile_rows;
    tiles.items = work.items;
    tiles.num_items = work.num_items;
    launch_tiles(dim, tiles, stream);
  };
  launch(args.small, kSmallTileRows);
  launch(args.large, kLargeTileRows);
}

}  // namespace pagedinfer::kernels
