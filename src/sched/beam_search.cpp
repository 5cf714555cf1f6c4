#include "sched/beam_search.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "core/check.h"
#include "core/double_math.h"

namespace pagedinfer {

BeamSearch::BeamSearch(const BeamSettings& settings, int max_tokens)
    : settings_(settings), max_tokens_(max_tokens) {
  CHECK(settings.width > 0 && max_tokens > 0);
}

void BeamSearch::step(std::span<const Candidates> candidates, const RoleOf& role_of) {
  CHECK(!is_done_ && candidates.size() == running_.size());
  struct Continuation {
    int parent;
    TokenId token;
    double sum;
  };
  std::vector<Continuation> all;
  for (int parent = 0; parent < static_cast<int>(running_.size()); ++parent) {
    for (const TokenCandidate& candidate : candidates[parent]) {
      if (!std::isfinite(candidate.log_probability)) continue;
      const double sum = running_[parent].sum + double{candidate.log_probability};
      all.push_back({parent, candidate.token, sum});
    }
  }
  std::ranges::sort(all, {},
                    [](const Continuation& c) { return std::tuple(-c.sum, c.parent, c.token); });

  const std::vector<Beam> before = std::exchange(running_, {});
  const auto width = static_cast<size_t>(settings_.width);
  const bool is_last = ++num_tokens_ == max_tokens_;
  size_t rank = 0;  // among those that are not banned
  for (const auto& [parent, token, sum] : all) {
    if (running_.size() == width || (is_last && rank == width)) break;
    const TokenRole role = role_of(before[parent], token);
    if (role == TokenRole::kBanned) continue;
    const bool ends = role == TokenRole::kEnds;
    if (rank++ >= width && ends) continue;
    std::vector<TokenId> tokens = before[parent].tokens;
    tokens.push_back(token);
    if (ends || is_last) {
      keep({.tokens = std::move(tokens),
            .sum = sum,
            .score = score(sum, num_tokens_),
            .reason = ends ? FinishReason::kStop : FinishReason::kLength});
    } else {
      running_.push_back({.parent = parent, .tokens = std::move(tokens), .sum = sum});
    }
  }
  is_done_ = running_.empty() || !may_improve();
}

double BeamSearch::score(double sum, int num_tokens) const {
  // A whole number where the penalty is 1.
  const auto divisor =
      static_cast<float>(exp_double(settings_.length_penalty * log_double(num_tokens)));
  return sum / double{divisor};
}

// Among equal scores the beam that was kept first is the better one.
void BeamSearch::keep(FinishedBeam beam) {
  const auto at =
      std::ranges::upper_bound(finished_, beam.score, std::greater<>(), &FinishedBeam::score);
  finished_.insert(at, std::move(beam));
  if (std::ssize(finished_) > settings_.width) finished_.pop_back();
}

// Whether a running beam may still become one of the best. An estimate unless early_stopping is
// kNever: a beam that gets longer may then still win by the length penalty.
bool BeamSearch::may_improve() const {
  if (std::ssize(finished_) < settings_.width) return true;
  if (settings_.early_stopping == EarlyStopping::kOn) return false;
  const bool longest_is_best =
      settings_.early_stopping == EarlyStopping::kNever && settings_.length_penalty > 0;
  const double best = score(running_[0].sum, longest_is_best ? max_tokens_ : num_tokens_);
  return best > finished_.back().score;
}

}  // namespace pagedinfer
