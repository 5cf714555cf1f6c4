#pragma once

#include <span>
#include <vector>

#include "ops/cpu/kernels.h"
#include "ops/log_probability.h"
#include "ops/step_protocol.h"

namespace pagedinfer {

// Draws tokens from rows of logits. Use one per thread: it holds buffers, and no state between
// draws.
//
// Only tokens with finite logits are candidates. With a filter (top-k, top-p or min-p) they are
// ordered by descending logit, then id; without one by id. The weight of a candidate is exp((logit
// - largest) / temperature). Weights are summed in blocks of 256 candidates by Kernels::sum, and
// block sums are added in double. The draw walks the same sums.
class Sampler {
 public:
  explicit Sampler(const Kernels& kernels) : kernels_(kernels) {}

  // Of the buffers: four numbers for each token of the vocabulary, one of which may be in a list
  // that is copied as it grows.
  static int64_t max_bytes(int64_t vocab) { return 6 * int64_t{sizeof(float)} * vocab; }

  // Returns the drawn token; -1 if no logit is finite. REQUIRES: FlushDenormals.
  TokenId draw(std::span<const float> logits, const SampleRow& row);

  // Fills in the log probabilities and candidates of tokens that were drawn from `logits`, one for
  // each of `rows`. REQUIRES: FlushDenormals; the rows ask for them.
  void report(std::span<const float> logits, std::span<const SampleRow> rows,
              std::span<DrawnToken> drawn);

 private:
  std::span<const float> adjust(std::span<const float> logits, const SampleRow& row);
  void penalize(const SampleRow& row);
  TokenId argmax(std::span<const float> x) const;
  // Sets ids_ to the first `count` candidates in order. REQUIRES: 0 < count.
  void select_largest(std::span<const float> x, int64_t count);
  // Sets ids_ to all candidates down to some logit, in order. Their weights almost always sum to
  // `share` or more. REQUIRES: weights_ of the whole vocabulary.
  void select_share(std::span<const float> x, double share);
  // Sets ids_ and weights_ to the candidates that pass top-k, top-p and min-p, in order.
  void filter(std::span<const float> x, float largest, const SamplingParams& params);
  // Sets weights_ to those of ids_.
  void weigh_candidates(std::span<const float> x, float largest, float temperature);
  double total_weight();
  int64_t draw_index(float u);

  const Kernels& kernels_;
  std::vector<float> adjusted_, weights_, block_sums_, maxima_, order_;
  std::vector<TokenId> ids_;
  std::vector<int> counts_;  // by token; all 0 between calls
};

}  // namespace pagedinfer
