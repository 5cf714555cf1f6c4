#pragma once

#include <span>
#include <vector>

#include "ops/cpu/kernels.h"
#include "ops/step_protocol.h"

namespace pagedinfer {

// Draws a token from a row of logits. One per thread: it keeps buffers, nothing else.
//
// Only finite logits can be drawn. With a filter the candidates are ordered by logit
// (descending), then id; without one they stay in the order of ids. The weight of a candidate is
// exp((logit - largest) / temperature). The sum of weights is that of blocks of 256 candidates,
// each a reduction, added up in double; the draw walks the same sums.
class Sampler {
 public:
  explicit Sampler(const Kernels& kernels) : kernels_(kernels) {}

  // -1 if no logit is finite. REQUIRES: FlushDenormals.
  TokenId draw(std::span<const float> logits, const SampleRow& row);

 private:
  std::span<const float> adjust(std::span<const float> logits, const SampleRow& row);
  void penalize(const SampleRow& row);
  TokenId argmax(std::span<const float> x) const;
  // The first `count` of the finite ones, in order, into ids_.
  void select_largest(std::span<const float> x, int64_t count);
  // All down to a logit, in order: nearly always enough to make up `share` of the weights_.
  void select_share(std::span<const float> x, double share);
  // Candidates that top-k, top-p and min-p leave, in order, into ids_ and weights_.
  void filter(std::span<const float> x, float largest, const SamplingParams& params);
  // Fills weights_ for ids_.
  void weigh_candidates(std::span<const float> x, float largest, float temperature);
  double total_weight();
  int64_t draw_index(float u);

  const Kernels& kernels_;
  std::vector<float> adjusted_, weights_, block_sums_, maxima_, order_;
  std::vector<TokenId> ids_;
  std::vector<int> counts_;  // of the vocabulary; zero between calls
};

}  // namespace pagedinfer
