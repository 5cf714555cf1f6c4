#include "ops/cpu/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <functional>

#include "core/check.h"
#include "core/philox.h"
#include "core/token_mask.h"

namespace pagedinfer {

namespace {

constexpr int64_t kBlock = 256;
constexpr float kNone = -INFINITY;

bool changes_logits(const SampleRow& row) {
  const SamplingParams& params = *row.params;
  return !params.logit_bias.empty() || !row.allowed.empty() || !row.banned.empty() ||
         !row.mask.empty() || params.repetition_penalty != 1.0f ||
         params.presence_penalty != 0.0f || params.frequency_penalty != 0.0f;
}

// The token whose log probability is reported, or kNoToken.
TokenId token_to_report(const SampleRow& row, TokenId drawn) {
  if (drawn != kNoToken || row.allowed.empty()) return drawn;
  const TokenId first = row.allowed.front();
  const auto is_first = [first](TokenId id) { return id == first; };
  return std::ranges::all_of(row.allowed, is_first) ? first : kNoToken;
}

// For each byte of a mask, all bits of those of eight numbers that it keeps.
constexpr auto kKept = [] {
  std::array<std::array<uint32_t, 8>, 256> kept = {};
  for (size_t byte = 0; byte < kept.size(); ++byte) {
    for (size_t i = 0; i < 8; ++i) kept[byte][i] = (byte >> i & 1) != 0 ? ~0u : 0;
  }
  return kept;
}();

// Without branches, which the bits of a mask make unpredictable.
void apply_mask(std::span<const uint32_t> mask, std::span<float> x) {
  constexpr size_t kBits = 32;
  size_t word = 0;
  for (; (word + 1) * kBits <= x.size(); ++word) {
    if (mask[word] == ~0u) continue;
    for (size_t byte = 0; byte < 4; ++byte) {
      const auto& kept = kKept[mask[word] >> (8 * byte) & 0xff];
      float* const at = x.data() + word * kBits + 8 * byte;
      for (size_t i = 0; i < 8; ++i) {
        at[i] = std::bit_cast<float>((std::bit_cast<uint32_t>(at[i]) & kept[i]) |
                                     (std::bit_cast<uint32_t>(kNone) & ~kept[i]));
      }
    }
  }
  for (size_t id = word * kBits; id < x.size(); ++id) {
    if (!is_allowed(mask, static_cast<TokenId>(id))) x[id] = kNone;
  }
}

struct InOrder {
  std::span<const float> x;
  bool operator()(TokenId a, TokenId b) const { return x[a] != x[b] ? x[a] > x[b] : a < b; }
};

}  // namespace

TokenId Sampler::draw(std::span<const float> logits, const SampleRow& row) {
  const SamplingParams& params = *row.params;
  const std::span<const float> x = changes_logits(row) ? adjust(logits, row) : logits;
  if (params.temperature < FLT_MIN) return argmax(x);

  const float largest = kernels_.largest(x.data(), std::ssize(x));
  if (largest == kNone) return -1;
  const float u = uniform(row.key, row.sample, row.position, 0);
  const bool filtered = (params.top_k > 0 && params.top_k < std::ssize(x)) || params.top_p < 1.0f ||
                        params.min_p > 0.0f;
  if (!filtered) {
    weights_.resize(x.size());
    kernels_.weights(x.data(), largest, params.temperature, weights_.data(), std::ssize(x));
    return static_cast<TokenId>(draw_index(u));
  }
  filter(x, largest, params);
  return ids_[draw_index(u)];
}

void Sampler::report(std::span<const float> logits, std::span<const SampleRow> rows,
                     std::span<DrawnToken> drawn) {
  const float largest = kernels_.largest(logits.data(), std::ssize(logits));
  if (largest == kNone) return;
  weights_.resize(logits.size());
  kernels_.weights(logits.data(), largest, 1.0f, weights_.data(), std::ssize(logits));
  const LogProbability log_probability(largest, total_weight());
  if (rows[0].candidates_in_mask) {
    adjusted_.assign(logits.begin(), logits.end());
    apply_mask(rows[0].mask, adjusted_);
    logits = adjusted_;
  }
  std::vector<TokenCandidate> candidates;
  if (const int count = rows[0].num_log_probs; count > 0) {
    select_largest(logits, count);
    for (const TokenId id : ids_) candidates.push_back({id, *log_probability.of(logits[id])});
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const TokenId token = token_to_report(rows[i], drawn[i].token);
    if (token != kNoToken) drawn[i].log_probability = log_probability.of(logits[token]);
    drawn[i].candidates = candidates;
  }
}

std::span<const float> Sampler::adjust(std::span<const float> logits, const SampleRow& row) {
  adjusted_.assign(logits.begin(), logits.end());
  for (const TokenBias& bias : row.params->logit_bias) adjusted_[bias.token] += bias.bias;
  if (!row.allowed.empty()) {
    weights_.clear();
    for (const TokenId id : row.allowed) weights_.push_back(adjusted_[id]);
    std::ranges::fill(adjusted_, kNone);
    for (size_t i = 0; i < row.allowed.size(); ++i) adjusted_[row.allowed[i]] = weights_[i];
  }
  for (const TokenId id : row.banned) adjusted_[id] = kNone;
  if (!row.mask.empty()) apply_mask(row.mask, adjusted_);
  penalize(row);
  return adjusted_;
}

void Sampler::penalize(const SampleRow& row) {
  const SamplingParams& params = *row.params;
  const float repetition = params.repetition_penalty;
  counts_.resize(adjusted_.size());
  const auto for_each_once = [&](std::span<const TokenId> tokens, const auto& f) {
    for (const TokenId id : tokens) {
      if (counts_[id] > 0) {
        f(adjusted_[id], counts_[id]);
        counts_[id] = 0;
      }
    }
  };
  const auto count = [&](std::span<const TokenId> tokens) {
    for (const TokenId id : tokens) ++counts_[id];
  };
  if (repetition != 1.0f) {
    const auto repeat = [&](float& x, int) { x = x > 0 ? x / repetition : x * repetition; };
    count(row.prompt);
    count(row.generated);
    for_each_once(row.prompt, repeat);
    for_each_once(row.generated, repeat);
  }
  if (params.presence_penalty != 0.0f || params.frequency_penalty != 0.0f) {
    count(row.generated);
    for_each_once(row.generated, [&](float& x, int times) {
      x -= params.frequency_penalty * static_cast<float>(times);
      x -= params.presence_penalty;
    });
  }
}

TokenId Sampler::argmax(std::span<const float> x) const {
  float best = kNone;
  int64_t best_block = -1;
  for (int64_t start = 0; start < std::ssize(x); start += kBlock) {
    const float here = kernels_.largest(&x[start], std::min(kBlock, std::ssize(x) - start));
    if (here > best) best = here, best_block = start;
  }
  if (best_block < 0) return -1;
  return static_cast<TokenId>(std::find(x.begin() + best_block, x.end(), best) - x.begin());
}

void Sampler::select_largest(std::span<const float> x, int64_t count) {
  constexpr int64_t kGroup = 64;
  const auto group_size = [&](int64_t start) { return std::min(kGroup, std::ssize(x) - start); };
  maxima_.clear();
  for (int64_t start = 0; start < std::ssize(x); start += kGroup) {
    maxima_.push_back(kernels_.largest(&x[start], group_size(start)));
  }
  // At least `count` logits are not below the count-th largest maximum of a group.
  float min_logit = -FLT_MAX;
  if (count < std::ssize(maxima_)) {
    order_ = maxima_;
    std::nth_element(order_.begin(), order_.begin() + count - 1, order_.end(), std::greater<>());
    min_logit = std::max(min_logit, order_[count - 1]);
  }
  ids_.clear();
  for (int64_t start = 0; start < std::ssize(x); start += kGroup) {
    if (maxima_[start / kGroup] < min_logit) continue;
    for (int64_t id = start; id < start + group_size(start); ++id) {
      if (x[id] >= min_logit && x[id] <= FLT_MAX) ids_.push_back(static_cast<TokenId>(id));
    }
  }
  if (count < std::ssize(ids_)) {
    std::nth_element(ids_.begin(), ids_.begin() + count, ids_.end(), InOrder{x});
    ids_.resize(count);
  }
  std::sort(ids_.begin(), ids_.end(), InOrder{x});
}

void Sampler::select_share(std::span<const float> x, double share) {
  // Sums of the weights by their upper 12 bits, which are at most 1016 for a float up to 1.
  std::array<double, 1024> sums = {};
  const auto upper_bits = [](float weight) { return std::bit_cast<uint32_t>(weight) >> 20; };
  for (const float weight : weights_) sums[upper_bits(weight)] += static_cast<double>(weight);
  uint32_t last = sums.size() - 1;
  double sum = 0;
  while (last > 1 && (sum += sums[last]) < share * (1 + 1e-9)) --last;

  float min_logit = FLT_MAX;
  for (size_t id = 0; id < x.size(); ++id) {
    if (upper_bits(weights_[id]) >= last) min_logit = std::min(min_logit, x[id]);
  }
  ids_.clear();
  for (size_t id = 0; id < x.size(); ++id) {
    if (x[id] >= min_logit && x[id] <= FLT_MAX) ids_.push_back(static_cast<TokenId>(id));
  }
  std::sort(ids_.begin(), ids_.end(), InOrder{x});
}

void Sampler::filter(std::span<const float> x, float largest, const SamplingParams& params) {
  const bool top_k = params.top_k > 0 && params.top_k < std::ssize(x);
  const bool top_p = params.top_p < 1.0f;
  // Keeps the smallest number of leading candidates whose weights sum to top_p * total. False if
  // all of them sum to less.
  const auto cut_to_share = [&](double total) {
    double sum = 0;
    for (size_t i = 0; i < ids_.size(); ++i) {
      sum += static_cast<double>(weights_[i]);
      if (sum >= static_cast<double>(params.top_p) * total) {
        ids_.resize(i + 1);
        weights_.resize(i + 1);
        return true;
      }
    }
    return false;
  };
  if (top_k) {
    select_largest(x, params.top_k);
    weigh_candidates(x, largest, params.temperature);
    if (top_p) cut_to_share(total_weight());
  } else if (top_p) {
    weights_.resize(x.size());
    kernels_.weights(x.data(), largest, params.temperature, weights_.data(), std::ssize(x));
    const double total = total_weight();
    select_share(x, static_cast<double>(params.top_p) * total);
    weigh_candidates(x, largest, params.temperature);
    if (!cut_to_share(total)) {  // rounding: the sums were added in another order
      select_largest(x, std::ssize(x));
      weigh_candidates(x, largest, params.temperature);
      cut_to_share(total);
    }
  } else {
    weights_.resize(x.size());
    kernels_.weights(x.data(), largest, params.temperature, weights_.data(), std::ssize(x));
    ids_.clear();
    for (size_t id = 0; id < x.size(); ++id) {
      if (weights_[id] >= params.min_p) ids_.push_back(static_cast<TokenId>(id));
    }
    std::sort(ids_.begin(), ids_.end(), InOrder{x});
    weigh_candidates(x, largest, params.temperature);
  }
  if (params.min_p > 0.0f) {
    // The most likely candidate, whose weight is 1, always stays.
    size_t kept = 0;
    for (size_t i = 0; i < ids_.size(); ++i) {
      if (i > 0 && weights_[i] < params.min_p) continue;
      ids_[kept] = ids_[i];
      weights_[kept++] = weights_[i];
    }
    ids_.resize(kept);
    weights_.resize(kept);
  }
}

void Sampler::weigh_candidates(std::span<const float> x, float largest, float temperature) {
  weights_.resize(ids_.size());
  for (size_t i = 0; i < ids_.size(); ++i) weights_[i] = x[ids_[i]];
  kernels_.weights(weights_.data(), largest, temperature, weights_.data(), std::ssize(weights_));
}

double Sampler::total_weight() {
  double total = 0;
  block_sums_.clear();
  for (int64_t start = 0; start < std::ssize(weights_); start += kBlock) {
    const int64_t n = std::min(kBlock, std::ssize(weights_) - start);
    block_sums_.push_back(kernels_.sum(&weights_[start], n));
    total += static_cast<double>(block_sums_.back());
  }
  return total;
}

int64_t Sampler::draw_index(float u) {
  const double target = static_cast<double>(u) * total_weight();
  double sum = 0;
  size_t block = 0;
  while (sum + static_cast<double>(block_sums_[block]) <= target) {
    sum += static_cast<double>(block_sums_[block++]);
  }
  const int64_t first = static_cast<int64_t>(block) * kBlock;
  const int64_t end = std::min(first + kBlock, std::ssize(weights_));
  int64_t chosen = first;
  for (int64_t i = first; i < end; ++i) {
    if (weights_[i] > 0) chosen = i;
    sum += static_cast<double>(weights_[i]);
    if (sum > target) break;
  }
  return chosen;
}

}  // namespace pagedinfer
