// Between the files of sampling; not for others.
#pragma once

#include "kernels/sample_math.h"

namespace pagedinfer::kernels {

constexpr int kGroup = 64;     // logits whose largest is kept, for top-k
constexpr int kChunk = 4096;   // logits of a thread block that looks at all of them
constexpr int kBigSlots = 16;  // rows with very many candidates that are sorted at once

struct Largest {
  float value;  // -infinity: none is finite
  int id;       // the first one
};

// What SampleArgs::workspace holds.
struct SampleSpace {
  Largest* chunks;     // (num_rows, num_chunks)
  float* groups;       // (num_rows, num_groups)
  float* block_sums;   // (num_rows, num_blocks): of weights; where needs_all_weights()
  uint32_t* min_rank;  // (num_rows): the lowest rank of the candidates that are left to sort, or 0
  uint64_t* keys;      // (kBigSlots, vocabulary)
  int num_chunks, num_groups, num_blocks;
};

// Sort and draw from what the first kernels have found.
void launch_draw(const SampleArgs& args, const SampleSpace& space, cudaStream_t stream);

}  // namespace pagedinfer::kernels
