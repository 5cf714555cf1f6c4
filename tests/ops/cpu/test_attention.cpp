// However a token's attention is computed, it has the bits of the definition, which is
// attention_by_definition() below; that function is compared with attention in double.
#include <doctest/doctest.h>

#include "tests/support/attention_support.h"

using namespace pagedinfer;

namespace {

float exp_of(float x) {
  float y;
  kPortableKernels.exp(&x, &y, 1);
  return y;
}

// One query row against keys first..last of one head.
std::vector<float> attention_by_definition(const AttentionShape& shape,
                                           const AttentionSequence& seq, int token, int head) {
  constexpr int kSegment = 256;
  const int dim = shape.dim, kv_head = head / (shape.heads / shape.kv_heads);
  const float scale = 1 / std::sqrt(static_cast<float>(dim));
  const auto kv_at = [&](int key) { return (int64_t{key} * shape.kv_heads + kv_head) * dim; };
  const float* q = &seq.q[(int64_t{token} * shape.heads + head) * dim];
  const int begin = shape.window > 0 ? std::max(0, token + 1 - shape.window) : 0;
  float largest = -INFINITY, sum = 0;
  std::vector<float> total(dim, 0.0f);
  for (int segment = begin / kSegment; segment * kSegment <= token; ++segment) {
    const int first = std::max(begin, segment * kSegment);
    const int end = std::min(token + 1, (segment + 1) * kSegment);
    std::vector<float> scores, part(dim, 0.0f);
    float part_largest = -INFINITY;
    for (int key = first; key < end; ++key) {
      float score = 0;
      for (int d = 0; d < dim; ++d) score = std::fma(q[d] * scale, seq.k[kv_at(key) + d], score);
      scores.push_back(score);
      part_largest = std::max(part_largest, score);
    }
    std::vector<float> p(first % 16, 0.0f);  // lane = key mod 16
    for (int key = first; key < end; ++key) {
      p.push_back(exp_of(scores[key - first] - part_largest));
      for (int d = 0; d < dim; ++d) part[d] = std::fma(p.back(), seq.v[kv_at(key) + d], part[d]);
    }
    const float part_sum = interleaved_sum(p);
    if (segment == begin / kSegment) {
      largest = part_largest, sum = part_sum, total = part;
      continue;
    }
    const float next = std::max(largest, part_largest);
    const float keep = exp_of(largest - next), add = exp_of(part_largest - next);
    sum = sum * keep + part_sum * add;
    for (int d = 0; d < dim; ++d) total[d] = total[d] * keep + part[d] * add;
    largest = next;
  }
  for (float& x : total) x /= sum;
  return total;
}

double error_against_double(const AttentionShape& shape, const AttentionSequence& seq, int token,
                            int head, std::span<const float> out) {
  const int dim = shape.dim, kv_head = head / (shape.heads / shape.kv_heads);
  const float* q = &seq.q[(int64_t{token} * shape.heads + head) * dim];
  std::vector<double> total(dim, 0.0);
  double sum = 0, worst = 0;
  for (int key = shape.window > 0 ? std::max(0, token + 1 - shape.window) : 0; key <= token;
       ++key) {
    const int64_t at = (int64_t{key} * shape.kv_heads + kv_head) * dim;
    double score = 0;
    for (int d = 0; d < dim; ++d) score += static_cast<double>(q[d]) * seq.k[at + d];
    const double p = std::exp(score / std::sqrt(static_cast<double>(dim)));
    sum += p;
    for (int d = 0; d < dim; ++d) total[d] += p * seq.v[at + d];
  }
  for (int d = 0; d < dim; ++d) worst = std::max(worst, std::abs(out[d] - total[d] / sum));
  return worst;
}

std::vector<float> by_definition(const AttentionShape& shape, const AttentionSequence& seq) {
  const FlushDenormals guard;
  std::vector<float> out;
  for (int token = 0; token < seq.tokens; ++token) {
    for (int head = 0; head < shape.heads; ++head) {
      const auto row = attention_by_definition(shape, seq, token, head);
      if (token % 29 == 0) CHECK(error_against_double(shape, seq, token, head, row) < 5e-6);
      out.insert(out.end(), row.begin(), row.end());
    }
  }
  return out;
}

}  // namespace

TEST_CASE("attention has the same bits in every way to compute it") {
  MESSAGE("instruction sets: " << isa_names());
  const std::vector<std::pair<AttentionShape, int>> cases = {
      {{4, 2, 32, 0, DType::kBF16}, 300},   {{4, 1, 64, 0, DType::kBF16}, 530},
      {{3, 3, 128, 0, DType::kBF16}, 270},  {{8, 1, 16, 300, DType::kBF16}, 600},
      {{5, 1, 96, 17, DType::kF32}, 290},   {{2, 2, 80, 0, DType::kF32}, 265},
      {{2, 1, 256, 40, DType::kBF16}, 260}, {{4, 2, 6, 0, DType::kF32}, 540},
      {{2, 2, 4, 0, DType::kBF16}, 270},    {{70, 1, 6, 33, DType::kF32}, 40},
      {{2, 1, 8, 1, DType::kBF16}, 270},    {{2, 1, 4, 256, DType::kF32}, 530},
      {{3, 1, 16, 257, DType::kBF16}, 520}, {{2, 2, 6, 20, DType::kF32}, 20},
      {{2, 1, 1, 0, DType::kF32}, 20},      {{9, 3, 65, 0, DType::kBF16}, 100}};
  Random random{5};
  int runs = 0;
  for (const auto& [shape, tokens] : cases) {
    std::vector<AttentionSequence> sequences;
    for (const int n : {tokens, 1, 1 + random.below(tokens), 37}) {
      sequences.emplace_back(random, shape, n);
    }
    std::vector<std::vector<float>> right;
    for (const AttentionSequence& s : sequences) right.push_back(by_definition(shape, s));
    const auto check = [&](size_t num_seqs, const AttentionRun& how) {
      const auto outputs = run_attention(random, shape, std::span(sequences).first(num_seqs), how);
      for (size_t s = 0; s < num_seqs; ++s) {
        INFO(name_of(how.isa) << ", " << how.threads << " threads, blocks of " << how.block_size
                              << ", chunks of " << how.chunk << ", sequence " << s << " of "
                              << num_seqs << ", head_dim " << shape.dim);
        CHECK(count_differences(outputs[s], right[s]) == 0);
      }
      ++runs;
    };
    for (const CpuIsa isa : available_isas()) {
      const bool slow = isa == CpuIsa::kPortable;
      check(4, {isa, 2, 16, 0});
      check(1, {isa, 1, random.between(1, 40), tokens});
      if (slow) continue;
      for (const int block_size : {1, 2, 7, 16, 32, 256, 1024}) {
        for (const int chunk : {0, 16, tokens}) {
          check(random.below(2) ? 1 : 4, {isa, random.between(1, 4), block_size, chunk});
        }
      }
      check(1, {isa, 3, 16, 1});
      check(4, {isa, 4, random.between(1, 40), 1});
    }
  }
  MESSAGE(runs << " runs");
}
