// The choice of experts, and Arithmetic's operations of experts in plain loops over host memory.
#include "ops/experts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/check.h"
#include "core/denormals.h"
#include "ops/arithmetic.h"

namespace pagedinfer {
namespace {

// The building block of docs/numerics.md.
float defined_exp(float x) {
  if (std::isnan(x)) return x;
  if (x < -0x1.5d589ep+6f) return 0.0f;
  if (x > 0x1.62e42ep+6f) return INFINITY;
  const float t = x * 0x1.715476p+0f + 12582912.0f;
  const float n = t - 12582912.0f;
  const float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  float p = 0x1.6ac6b2p-10f;
  for (const float c : {0x1.123dep-7f, 0x1.555858p-5f, 0x1.55548cp-3f, 0x1.fffffcp-2f}) {
    p = p * r + c;
  }
  const float y = 1.0f + (r + (r * r) * p);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(y) + (std::bit_cast<uint32_t>(t) << 23));
}

// The tree of docs/numerics.md.
float tree_sum(float* lanes) {
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

float sum_of(std::span<const float> x) {
  float lanes[16] = {};
  for (size_t i = 0; i < x.size(); ++i) lanes[i % 16] += x[i];
  return tree_sum(lanes);
}

// A product in float32.
float product_of(const float* x, const float* weights, int64_t n) {
  float lanes[16] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i % 16] = std::fma(x[i], weights[i], lanes[i % 16]);
  return tree_sum(lanes);
}

Tensor row_of(const Tensor& x, int64_t i) {
  return {x.row<float>(i), x.dtype, 1, x.cols, x.stride};
}

}  // namespace

void choose_experts(std::span<const float> logits, const Router& router, float shared_logit,
                    int64_t i, const ExpertChoice& choice) {
  const FlushDenormals guard;
  int32_t* const chosen = choice.experts.row<int32_t>(i);
  float* const weights = choice.weights.row<float>(i);
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  // A NaN comes last, so that the order is one.
  const auto rank = [&](int32_t expert) {
    const float logit = logits[static_cast<size_t>(expert)];
    return std::isnan(logit) ? -INFINITY : logit;
  };
  std::partial_sort(
      order.begin(), order.begin() + router.per_row, order.end(),
      [&](int32_t a, int32_t b) { return rank(a) > rank(b) || (rank(a) == rank(b) && a < b); });
  const float largest = logits[static_cast<size_t>(order[0])];
  std::sort(order.begin(), order.begin() + router.per_row);
  const auto power = [&](int32_t expert) {
    return defined_exp(logits[static_cast<size_t>(expert)] - largest);
  };
  std::vector<float> powers;
  if (router.normalizes_chosen) {
    for (int c = 0; c < router.per_row; ++c) powers.push_back(power(order[c]));
  } else {
    for (int32_t e = 0; e < std::ssize(logits); ++e) powers.push_back(power(e));
  }
  const float sum = sum_of(powers);
  for (int c = 0; c < router.per_row; ++c) {
    chosen[c] = order[c];
    weights[c] = powers[static_cast<size_t>(router.normalizes_chosen ? c : order[c])] / sum;
  }
  if (!router.has_shared) return;
  chosen[router.per_row] = static_cast<int32_t>(logits.size());
  weights[router.per_row] =
      router.shared_gate.empty() ? 1.0f : 1.0f / (1.0f + defined_exp(0.0f - shared_logit));
}

void Arithmetic::route(Tensor x, const Router& router, const ExpertChoice& choice) {
  CHECK(x.dtype == DType::kF32);
  const FlushDenormals guard;
  std::vector<float> logits(static_cast<size_t>(router.weight.rows));
  for (int64_t i = 0; i < x.rows; ++i) {
    const auto product = [&](const Tensor& weight, int64_t row) {
      return product_of(x.row<float>(i), weight.row<float>(row), x.cols);
    };
    for (int64_t e = 0; e < std::ssize(logits); ++e) {
      float& logit = logits[static_cast<size_t>(e)];
      logit = product(router.weight, e);
      if (!router.bias.empty()) logit += router.bias.row<float>(0)[e];
    }
    const float shared = router.shared_gate.empty() ? 0.0f : product(router.shared_gate, 0);
    choose_experts(logits, router, shared, i, choice);
  }
}

void Arithmetic::group_by_expert(const ExpertChoice& choice, const ExpertGroups& groups) {
  const int64_t choices = choice.experts.cols, experts = groups.starts.cols - 1;
  int32_t* const starts = groups.starts.row<int32_t>(0);
  int32_t* const numbers = groups.numbers.row<int32_t>(0);
  std::vector<int32_t> counts(static_cast<size_t>(experts) + 1);
  const auto for_each = [&](const auto& f) {
    for (int64_t i = 0; i < choice.experts.rows; ++i) {
      for (int64_t c = 0; c < choices; ++c) {
        f(static_cast<size_t>(choice.experts.row<int32_t>(i)[c]),
          static_cast<int32_t>(i * choices + c));
      }
    }
  };
  for_each([&](size_t expert, int32_t) { ++counts[expert + 1]; });
  std::partial_sum(counts.begin(), counts.end(), counts.begin());
  std::copy(counts.begin(), counts.end(), starts);
  for_each([&](size_t expert, int32_t number) { numbers[counts[expert]++] = number; });
}

std::span<const int32_t> Arithmetic::starts_on_host(const ExpertGroups& groups) const {
  return {groups.starts.row<int32_t>(0), static_cast<size_t>(groups.starts.cols)};
}

void Arithmetic::multiply_experts(Tensor x, const ExpertChoice& choice, const ExpertGroups&,
                                  std::span<const Expert> experts, Activation activation,
                                  const ClampedSwish& swish, Tensor out) {
  CHECK(x.dtype == DType::kF32);
  std::vector<float> buffers[4];
  const auto buffer = [&](int i, int64_t cols) {
    buffers[i].resize(static_cast<size_t>(cols));
    return Tensor{buffers[i].data(), DType::kF32, 1, cols, cols};
  };
  for (int64_t i = 0; i < x.rows; ++i) {
    float* const sum = out.row<float>(i);
    std::fill_n(sum, out.cols, 0.0f);
    for (int64_t c = 0; c < choice.experts.cols; ++c) {
      const Expert& expert = experts[static_cast<size_t>(choice.experts.row<int32_t>(i)[c])];
      const float weight = choice.weights.row<float>(i)[c];
      Tensor gated = buffer(2, expert.gate.rows);
      const Tensor y = buffer(3, out.cols);
      gated_matmul(row_of(x, i),
                   {.gate = {expert.gate, buffer(0, expert.gate.rows)},
                    .up = {expert.up, buffer(1, expert.up.rows)},
                    .gate_bias = expert.gate_bias,
                    .up_bias = expert.up_bias,
                    .activation = activation,
                    .swish = swish},
                   expert.down, gated);
      const Product down[] = {{expert.down, y}};
      matmul(gated, down);
      if (!expert.down_bias.empty()) add_bias(y, expert.down_bias);
      const FlushDenormals guard;
      for (int64_t k = 0; k < out.cols; ++k) {
        sum[k] = std::fma(weight, y.row<float>(0)[k], sum[k]);
      }
    }
  }
}

}  // namespace pagedinfer
