// Compiled for AVX-512.
#include "ops/cpu/amx_attention_kernel.h"
#include "ops/cpu/amx_tiles.h"

namespace pagedinfer {

namespace {

constexpr int kFewestRows = 12;  // with fewer, reading the cache takes longer than multiplying
static_assert(kFewestRows > kSharedRows);  // whose states have no room for a block of rows

}  // namespace

void attend_on_tiles(const AttentionRows& rows, const void* k, const void* v,
                     const Segments& segments, AttentionState state) {
  const AttentionKernels& plain = kAvx512Kernels.attention_bf16;
  if (rows.num_rows < kFewestRows || !TileAttention<AmxTiles>::can_attend(rows, segments)) {
    return plain.attend(rows, k, v, segments, state);
  }
  TileAttention<AmxTiles>(rows, (const bf16*)k, (const bf16*)v, plain, state).run(segments);
}

}  // namespace pagedinfer
