// Private to the sampling kernels: what their files share.
#pragma once

#include "kernels/sample_math.h"

namespace pagedinfer::kernels {

constexpr int kGroup = 64;     // logits per group; the largest of each group is kept, for top-k
constexpr int kChunk = 4096;   // logits per thread block in the kernels that read all of them
constexpr int kBigSlots = 16;  // rows that are sorted in global memory at the same time

struct Largest {
  float value;  // -infinity: no logit is finite
  int id;       // the smallest id with that logit
};

// The arrays in SampleArgs::workspace.
struct SampleSpace {
  Largest* chunks;    // (num_rows, num_chunks)
  float* groups;      // (num_rows, num_groups)
  float* block_sums;  // (num_rows, num_blocks) sums of weights, if needed
  // (num_rows) The lowest rank of the candidates of a row that draw_kernel() has left to
  // draw_big_kernel(); 0: the row is drawn.
  uint32_t* min_ranks;
  uint64_t* keys;  // (kBigSlots, vocabulary)
  int num_chunks, num_groups, num_blocks;
};

// The second part: sorts the candidates and draws.
void launch_draw(const SampleArgs& args, const SampleSpace& space, cudaStream_t stream);

// The third part. Before the logits are adjusted: SampleReport::rows and candidates, from the
// arrays of `space` for raw logits and temperature 1.
void launch_raw_rows(const SampleArgs& args, const SampleSpace& space, cudaStream_t stream);
// After the draw: SampleReport::drawn.
void launch_raw_drawn(const SampleArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
