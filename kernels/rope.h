// Rotary position embedding (Su et al. 2021), alone and in one pass with the norms of the heads and
// the writes to the cache.
#pragma once

#include "kernels/kv_layout.h"
#include "kernels/types.h"

namespace pagedinfer::kernels {

// Writes the cosines and then the sines of the angles float(position) * inv_freq, which are rounded
// to float32, times `scale` or, with factors, times scale * factors[min(position /
// positions_per_factor, num_factors - 1)]. The bits are those of the CPU backend.
struct RopeTableArgs {
  const int32_t* positions;  // (num_rows), below 2^24
  const float* inv_freq;     // (half)
  float* out;                // (num_rows, 2 * half)
  int64_t out_stride;        // elements
  int64_t num_rows;
  int half;
  float scale = 1.0f;
  const float* factors = nullptr;  // (num_factors), or nullptr
  int num_factors = 0, positions_per_factor = 1;
};
void launch_rope_table(const RopeTableArgs& args, cudaStream_t stream);

// Rotates the pairs (i, i + half) of every head in place; its elements from 2 * half on stay.
struct RopeArgs {
  Type type;
  Matrix x;            // (num_rows, heads * head_dim)
  const float* table;  // (num_rows, 2 * half): cos, then sin
  int64_t table_stride;
  int64_t num_rows;
  int heads, head_dim, half;
};
void launch_rope(const RopeArgs& args, cudaStream_t stream);

// One pass over q, k and v: normalizes the heads of q and k (if there is a weight), rotates them
// (if there are tables) as launch_rope() does, stores q in place and k and v in the cache. `k` and
// `v` themselves do not change. Results are rounded once, at the end. REQUIRES: head_dim is even.
struct QkvArgs {
  Type type;
  Matrix q;     // (num_rows, heads * head_dim), or data = nullptr
  Matrix k, v;  // (num_rows, kv_heads * head_dim)
  int64_t num_rows;
  int heads = 0;
  const float *q_weight = nullptr, *k_weight = nullptr;  // (head_dim), or nullptr
  float offset = 0, eps = 0;                             // of the norms, as in RmsNormArgs
  float limit = 0;  // q, k and v are then limited to [-limit, limit]; 0: they are not
  // (num_rows, 2 * half): cos, then sin; or both nullptr
  const float *q_table = nullptr, *k_table = nullptr;
  int64_t table_stride = 0;
  int half = 0;                 // not read without tables
  const int32_t* slot_mapping;  // (num_rows) cache positions; -1: k and v are skipped
  KvCache cache;                // of the same type, or int8
};
void launch_qkv(const QkvArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
