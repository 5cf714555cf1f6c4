// Compiled for AVX-512.
#include "ops/cpu/amx_attention_kernel.h"
#include "ops/cpu/amx_tiles.h"

namespace pagedinfer {

namespace {

constexpr int kFewestRows = 12;  // with fewer, reading the cache takes longer than multiplying
static_assert(kFewestRows > kSharedRows);  // whose states have no room for a block of rows

void prepare(const float* q, float scale, float softcap, float* to, int64_t n) {
  kAvx512Kernels.attention_bf16.prepare(q, scale, softcap, to, n);
}
void attend(const AttentionRows& rows, const void* k, const void* v, const Segments& segments,
            AttentionState state) {
  const AttentionKernels& plain = kAvx512Kernels.attention_bf16;
  if (rows.num_rows < kFewestRows || !TileAttention<AmxTiles>::can_attend(rows, segments)) {
    return plain.attend(rows, k, v, segments, state);
  }
  TileAttention<AmxTiles>(rows, (const bf16*)k, (const bf16*)v, plain, state).run(segments);
}
void combine(AttentionState total, AttentionState part, int num_rows, int head_dim) {
  kAvx512Kernels.attention_bf16.combine(total, part, num_rows, head_dim);
}
void add_sinks(AttentionState total, const float* sinks, int num_rows, int head_dim) {
  kAvx512Kernels.attention_bf16.add_sinks(total, sinks, num_rows, head_dim);
}
void divide(AttentionState total, int num_rows, int head_dim) {
  kAvx512Kernels.attention_bf16.divide(total, num_rows, head_dim);
}

}  // namespace

constinit const AttentionKernels kAmxAttention = {prepare, attend, combine, add_sinks, divide};

}  // namespace pagedinfer
