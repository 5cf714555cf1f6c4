// Beam search by the rules of Hugging Face transformers 5.23: which continuations of a prompt are
// followed, which are kept as finished, and when the search ends. Arithmetic on log probabilities;
// knows nothing of models, steps or the cache. docs/numerics.md states the rules.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/request.h"

namespace pagedinfer {

// A completion in progress.
struct Beam {
  int parent = 0;  // index of the beam that it continues, among the beams of the step before
  std::vector<TokenId> tokens = {};
  double sum = 0;  // of the log probabilities of its tokens
};

struct FinishedBeam {
  std::vector<TokenId> tokens = {};  // the one that ended it included
  double sum = 0;
  double score = 0;  // sum / (number of tokens) ^ length_penalty
  FinishReason reason = FinishReason::kStop;
};

// The effect of a token on the beam that it continues.
enum class TokenRole : uint8_t { kGoesOn, kEnds, kBanned };

class BeamSearch {
 public:
  // Begins with one beam, the empty one. `max_tokens` is the longest completion. REQUIRES: the
  // width and max_tokens are positive.
  BeamSearch(const BeamSettings& settings, int max_tokens);

  // How many of its likeliest tokens a beam must offer so that the rules need no further ones, if
  // at most `num_special` tokens end a beam or are banned.
  static int num_candidates(int width, int num_special) { return width + num_special; }

  // Continues each beam by its candidates, given in the order of running(). Ignores candidates that
  // are banned or whose log probability is not finite. Calls `role_of` for the best continuations
  // first, until the rules need no further ones. REQUIRES: the search is not done.
  using RoleOf = std::function<TokenRole(const Beam& beam, TokenId token)>;
  using Candidates = std::vector<TokenCandidate>;
  void step(std::span<const Candidates> candidates, const RoleOf& role_of);

  bool is_done() const { return is_done_; }
  // The beams to continue, best first: `width` of them after the first step, fewer if they were
  // not offered so many candidates.
  const std::vector<Beam>& running() const { return running_; }
  // At most `width`, best first.
  const std::vector<FinishedBeam>& finished() const { return finished_; }

 private:
  double score(double sum, int num_tokens) const;
  void keep(FinishedBeam beam);
  bool may_improve() const;

  BeamSettings settings_;
  int max_tokens_;
  int num_tokens_ = 0;  // of each running beam
  bool is_done_ = false;
  std::vector<Beam> running_ = {Beam()};
  std::vector<FinishedBeam> finished_ = {};
};

}  // namespace pagedinfer
