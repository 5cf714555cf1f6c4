// One token for each row of logits, by the CPU backend's definition: logit bias, allowed tokens,
// banned tokens, penalties, temperature, top-k, top-p, min-p, one draw by inversion. Equal logits
// give the CPU's tokens: candidates are ordered by logit (descending) and id, weights are
// exact_exp(), summed by blocks of 256 (16 interleaved sums and a tree), the block sums in
// ascending order in double.
#pragma once

#include "kernels/types.h"

namespace pagedinfer::kernels {

// A range of SampleArgs::tokens.
struct TokenRange {
  int32_t begin, count;
};

struct SampleRowArgs {
  float temperature;  // below the smallest normal float: greedy
  float top_p, min_p;
  int32_t top_k;
  float repetition_penalty, presence_penalty, frequency_penalty;
  uint32_t sample, position;
  uint64_t key;
  TokenRange bias;                       // tokens; the amounts are at the same places of `biases`
  TokenRange allowed;                    // empty: all
  TokenRange banned, prompt, generated;  // prompt and generated may be empty without penalties
};

struct SampleArgs {
  float* logits;  // (num_rows, vocabulary); bias, permissions, bans and penalties change them
  int64_t stride;
  int num_rows, vocabulary;   // vocabulary < 2^20
  const SampleRowArgs* rows;  // (num_rows), device
  const int32_t* tokens;      // ids of all ranges; those outside the vocabulary are ignored
  const int32_t* drawn;       // what negative ones of generated ranges stand for (drawn_tokens.h)
  const float* biases;        // parallel to tokens as far as bias ranges go
  // What the host knows of the rows; true is always right, false saves a launch.
  bool any_adjusted;  // a bias, permission, ban or penalty
  bool any_drawn;     // not greedy
  bool any_filtered;  // top-k, top-p or min-p
  int32_t* out;       // (num_rows): the token, or -1 where no logit is finite
  void* workspace;    // sample_workspace_bytes(), 16-byte aligned
};

int64_t sample_workspace_bytes(int64_t num_rows, int64_t vocabulary);
void launch_sample(const SampleArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
