// Rotary position embedding (Su et al. 2021), alone and as one pass with what surrounds it.
#pragma once

#include "kernels/kv_layout.h"
#include "kernels/types.h"

namespace pagedinfer::kernels {

// out = cos and then sin of float(position) * inv_freq, the angle rounded to float32: the
// CPU backend's bits.
struct RopeTableArgs {
  const int32_t* positions;  // (num_rows), below 2^24
  const float* inv_freq;     // (half)
  float* out;                // (num_rows, 2 * half)
  int64_t out_stride;        // elements
  int64_t num_rows;
  int half;
};
void launch_rope_table(const RopeTableArgs& args, cudaStream_t stream);

// Rotates the pairs (i, i + half) of every head in place.
struct RopeArgs {
  Type type;
  Matrix x;            // (num_rows, heads * 2 * half)
  const float* table;  // (num_rows, 2 * half): cos, then sin
  int64_t table_stride;
  int64_t num_rows;
  int heads, half;
};
void launch_rope(const RopeArgs& args, cudaStream_t stream);

// In one pass over q, k and v: the heads of q and k are normalized (if there is a weight) and
// rotated (if there is a table); q stays in place, k and v go to the cache and are not changed
// where they are. Rounded once, at the end. REQUIRES: an even head_dim.
struct QkvArgs {
  Type type;
  Matrix q;     // (num_rows, heads * head_dim), or data = nullptr
  Matrix k, v;  // (num_rows, kv_heads * head_dim)
  int64_t num_rows;
  int heads;
  const float *q_weight, *k_weight;  // (head_dim), or nullptr
  float offset, eps;                 // of the norms, as RmsNormArgs
  const float* table;                // (num_rows, head_dim): cos, then sin; or nullptr
  int64_t table_stride;
  const int32_t* slot_mapping;  // (num_rows): the position in the cache; -1: written nowhere
  KvCache cache;                // of the same type
};
void launch_qkv(const QkvArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
