// However a token's attention is computed, it has the bits of the definition, which is
// attention_by_definition() or attention_in_steps() below; both are compared with attention in
// double.
#include <doctest/doctest.h>

#include "tests/support/attention_support.h"
#include "tests/support/product_reference.h"
#include "tests/support/sanitized.h"
#include "tests/support/stored_rows.h"

using namespace pagedinfer;

namespace {

float exp_of(float x) {
  float y;
  kPortableKernels.exp(&x, &y, 1);
  return y;
}

float capped(float x, float cap) {
  if (cap == 0) return x;
  const float quotient = x / cap;
  float y;
  kPortableKernels.tanh(&quotient, &y, 1);
  return y * cap;
}

// What attention reads of a sequence.
struct Stored {
  Stored(const AttentionCase& shape, const AttentionSequence& seq)
      : q(seq.q),
        k(store_rows(seq.k, shape.dim, shape.cache)),
        v(store_rows(seq.v, shape.dim, shape.cache)) {}

  const std::vector<float>& q;
  const StoredRows k, v;
};

// Adds a key of this score whose value is 0, by the power of the definition.
template <class Power>
void add_sink(float score, const Power& power, float largest, float& sum,
              std::vector<float>& total) {
  const float both = std::max(largest, score), keep = power(largest - both);
  sum = sum * keep + power(score - both);
  for (float& x : total) x *= keep;
}

// One query row against keys first..last of one head.
std::vector<float> attention_by_definition(const AttentionCase& shape, const Stored& seq, int token,
                                           int head) {
  constexpr int kSegment = 256;
  const int dim = shape.dim, kv_head = head / (shape.heads / shape.kv_heads);
  const float scale = 1 / std::sqrt(static_cast<float>(dim));
  const auto row_of = [&](int key) { return int64_t{key} * shape.kv_heads + kv_head; };
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
      const float* const k = &seq.k.numbers[row_of(key) * dim];
      for (int d = 0; d < dim; ++d) score = std::fma(q[d] * scale, k[d], score);
      scores.push_back(capped(score * seq.k.scales[row_of(key)], shape.softcap));
      part_largest = std::max(part_largest, scores.back());
    }
    std::vector<float> p(first % 16, 0.0f);  // lane = key mod 16
    for (int key = first; key < end; ++key) {
      p.push_back(exp_of(scores[key - first] - part_largest));
      const float factor = p.back() * seq.v.scales[row_of(key)];
      const float* const v = &seq.v.numbers[row_of(key) * dim];
      for (int d = 0; d < dim; ++d) part[d] = std::fma(factor, v[d], part[d]);
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
  if (!shape.sinks.empty()) add_sink(shape.sinks[head], exp_of, largest, sum, total);
  for (float& x : total) x /= sum;
  return total;
}

// 2^x by the polynomial of the definition.
float exp2_of(float x) {
  const float shifted = x + 12582912.0f, rest = x - (shifted - 12582912.0f);
  float poly = std::fma(0x1.c2a218p-5f, rest, 0x1.f00c52p-3f);
  poly = std::fma(std::fma(poly, rest, 0x1.62f5fap-1f), rest, 1.0f);
  return x < -126 ? 0.0f : from_bits(bits_of(poly) + (bits_of(shifted) << 23));
}

// The sum of left(i) * right(i) for i in [begin, end), in steps of 32.
template <class Left, class Right>
float sum_in_steps(int begin, int end, const Left& left, const Right& right) {
  float total = 0;
  for (int step = begin / 32 * 32; step < end; step += 32) {
    float chain[2] = {0, 0};
    for (int i = std::max(begin, step); i < std::min(end, step + 32); ++i) {
      chain[i % 2] = std::fma(left(i), right(i), chain[i % 2]);
    }
    total = total + (chain[0] + chain[1]);
  }
  return total;
}

// The same over a cache in bfloat16.
std::vector<float> attention_in_steps(const AttentionCase& shape, const Stored& seq, int token,
                                      int head) {
  constexpr int kSegment = 256;
  constexpr float kLog2E = 0x1.715476p+0f;
  const int dim = shape.dim, kv_head = head / (shape.heads / shape.kv_heads);
  const float scale = 1 / std::sqrt(static_cast<float>(dim));
  std::vector<float> q(&seq.q[(int64_t{token} * shape.heads + head) * dim],
                       &seq.q[(int64_t{token} * shape.heads + head + 1) * dim]);
  for (float& x : q) x = rounded(x * (shape.softcap > 0 ? scale : scale * kLog2E));
  const auto number = [&](const StoredRows& rows, int key, int d) {
    return rows.numbers[(int64_t{key} * shape.kv_heads + kv_head) * dim + d];
  };
  const int begin = shape.window > 0 ? std::max(0, token + 1 - shape.window) : 0;
  float largest = -INFINITY, sum = 0;
  std::vector<float> total(dim, 0.0f);
  for (int segment = begin / kSegment * kSegment; segment <= token; segment += kSegment) {
    const int first = std::max(begin - segment, 0), end = std::min(token + 1 - segment, kSegment);
    float scores[kSegment], p[kSegment] = {}, part_largest = -INFINITY;
    for (int key = first; key < end; ++key) {
      const float score = sum_in_steps(
          0, dim, [&](int d) { return q[d]; },
          [&](int d) { return number(seq.k, segment + key, d); });
      scores[key] = shape.softcap > 0 ? capped(score, shape.softcap) * kLog2E : score;
      part_largest = std::max(part_largest, scores[key]);
    }
    for (int key = first; key < end; ++key) p[key] = exp2_of(scores[key] - part_largest);
    const float part_sum = interleaved_sum(std::vector<float>(p, p + kSegment));
    const float both = std::max(largest, part_largest);
    const float keep = exp2_of(largest - both), add = exp2_of(part_largest - both);
    largest = both;
    sum = sum * keep + part_sum * add;
    for (int d = 0; d < dim; ++d) {
      const float part = sum_in_steps(
          first, end, [&](int key) { return rounded(p[key]); },
          [&](int key) { return number(seq.v, segment + key, d); });
      total[d] = total[d] * keep + part * add;
    }
  }
  if (!shape.sinks.empty()) add_sink(shape.sinks[head] * kLog2E, exp2_of, largest, sum, total);
  for (float& x : total) x = (x + 0.0f) / sum;
  return total;
}

double error_against_double(const AttentionCase& shape, const Stored& seq, int token, int head,
                            std::span<const float> out) {
  const int dim = shape.dim, kv_head = head / (shape.heads / shape.kv_heads);
  const float* q = &seq.q[(int64_t{token} * shape.heads + head) * dim];
  std::vector<double> total(dim, 0.0);
  double sum = 0, worst = 0;
  for (int key = shape.window > 0 ? std::max(0, token + 1 - shape.window) : 0; key <= token;
       ++key) {
    const int64_t row = int64_t{key} * shape.kv_heads + kv_head, at = row * dim;
    double score = 0;
    for (int d = 0; d < dim; ++d) score += static_cast<double>(q[d]) * seq.k.numbers[at + d];
    score *= static_cast<double>(seq.k.scales[row]);
    score /= std::sqrt(static_cast<double>(dim));
    if (const double cap = shape.softcap; cap > 0) score = cap * std::tanh(score / cap);
    const double p = std::exp(score);
    const double factor = p * static_cast<double>(seq.v.scales[row]);
    sum += p;
    for (int d = 0; d < dim; ++d) total[d] += factor * seq.v.numbers[at + d];
  }
  if (!shape.sinks.empty()) sum += std::exp(static_cast<double>(shape.sinks[head]));
  for (int d = 0; d < dim; ++d) worst = std::max(worst, std::abs(out[d] - total[d] / sum));
  return worst;
}

std::vector<float> by_definition(const AttentionCase& shape, const AttentionSequence& seq) {
  const FlushDenormals guard;
  const Stored stored(shape, seq);
  std::vector<float> out;
  for (int token = 0; token < seq.tokens; ++token) {
    for (int head = 0; head < shape.heads; ++head) {
      const bool in_steps = shape.cache == DType::kBF16;
      const auto row = in_steps ? attention_in_steps(shape, stored, token, head)
                                : attention_by_definition(shape, stored, token, head);
      if (token % 29 == 0) {
        CHECK(error_against_double(shape, stored, token, head, row) < (in_steps ? 0.05 : 5e-6));
      }
      out.insert(out.end(), row.begin(), row.end());
    }
  }
  return out;
}

}  // namespace

TEST_CASE("attention has the same bits in every way to compute it") {
  MESSAGE("instruction sets: " << isa_names());
  const std::vector<std::pair<AttentionCase, int>> cases = {
      {{4, 2, 32, 0, DType::kBF16}, 300},
      {{4, 1, 64, 0, DType::kBF16}, 530},
      {{3, 3, 128, 0, DType::kBF16}, 270},
      {{8, 1, 16, 300, DType::kBF16}, 600},
      {{5, 1, 96, 17, DType::kF32}, 290},
      {{2, 2, 80, 0, DType::kF32}, 265},
      {{2, 1, 256, 40, DType::kBF16}, 260},
      {{4, 2, 6, 0, DType::kF32}, 540},
      {{2, 2, 4, 0, DType::kBF16}, 270},
      {{70, 1, 6, 33, DType::kF32}, 40},
      {{2, 1, 8, 1, DType::kBF16}, 270},
      {{2, 1, 4, 256, DType::kF32}, 530},
      {{3, 1, 16, 257, DType::kBF16}, 520},
      {{2, 2, 6, 20, DType::kF32}, 20},
      {{2, 1, 1, 0, DType::kF32}, 20},
      {{9, 3, 65, 0, DType::kBF16}, 100},
      {{4, 1, 64, 0, DType::kF16}, 530},
      {{5, 1, 33, 17, DType::kF16}, 290},
      {{24, 2, 8, 0, DType::kF16}, 270},
      {{4, 1, 64, 0, DType::kI8}, 530},
      {{3, 3, 128, 0, DType::kI8}, 270},
      {{7, 1, 80, 300, DType::kI8}, 600},
      {{2, 2, 6, 20, DType::kI8}, 40},
      {{70, 1, 16, 33, DType::kI8}, 40},
      {{4, 2, 24, 0, DType::kF32, 1.7f}, 300},
      {{2, 1, 96, 40, DType::kBF16, 5.0f}, 290},
      {{9, 3, 40, 0, DType::kI8, 0.8f}, 270},
      {{2, 1, 1, 0, DType::kI8}, 20},
      {{2, 1, 256, 257, DType::kI8}, 520},
      {{4, 2, 64, 128, DType::kBF16, 0, {-1.5f, 0.3f, 4.0f, 9.0f}}, 300},
      {{3, 1, 32, 0, DType::kBF16, 3.0f, {2.5f, -INFINITY, 0.0f}}, 270},
      {{2, 2, 64, 40, DType::kF32, 0, {5.0f, -2.0f}}, 290}};
  Random random{5};
  int runs = 0;
  for (size_t i = 0; i < cases.size(); i += kSanitized ? 3 : 1) {
    const auto& [shape, tokens] = cases[i];
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

TEST_CASE(
    "rows of equal magnitudes, zeros and very large numbers have the bits of the definition") {
  Random random{9};
  for (const DType type : {DType::kF16, DType::kI8}) {
    const AttentionCase shape = {2, 1, 48, 0, type};
    AttentionSequence seq(random, shape, 300);
    for (int row = 0; row < seq.tokens; ++row) {
      const int kind = row % 5;
      const float size = type == DType::kF16 ? 60000.0f : 1e30f;
      for (int d = 0; d < shape.dim; ++d) {
        float &k = seq.k[row * shape.dim + d], &v = seq.v[row * shape.dim + d];
        if (kind == 1) k = v = 0;
        if (kind == 2) k = k < 0 ? -1.5f : 1.5f, v = v < 0 ? -size : size;
        if (kind == 3) k *= 1e-39f, v *= 1e-40f;  // denormals, which count as 0
        if (kind == 4) k = 1, v *= 1e-5f;
      }
    }
    std::vector<float> right;
    {
      const FlushDenormals guard;
      const Stored stored(shape, seq);
      for (int token = 0; token < seq.tokens; ++token) {
        for (int head = 0; head < shape.heads; ++head) {
          const auto row = attention_by_definition(shape, stored, token, head);
          right.insert(right.end(), row.begin(), row.end());
        }
      }
    }
    for (const CpuIsa isa : available_isas()) {
      INFO(name_of(isa) << ", " << name_of(type));
      CHECK(count_differences(run_attention(random, shape, {&seq, 1}, {isa, 2, 16, 0})[0], right) ==
            0);
    }
  }
}

TEST_CASE("what the cache has no number for makes NaN of all that sees it, and of nothing else") {
  Random random{10};
  constexpr int kTokens = 290, kBad = 41, kWindow = 270;
  const auto run = [&](const AttentionCase& shape, const AttentionSequence& seq, CpuIsa isa) {
    return run_attention(random, shape, {&seq, 1}, {isa, 2, 16, 0})[0];
  };
  for (const auto& [type, too_large] :
       {std::pair{DType::kF16, 65520.0f}, {DType::kI8, INFINITY}, {DType::kBF16, NAN}}) {
    const AttentionCase shape = {2, 1, 20, kWindow, type};
    const AttentionSequence seq(random, shape, kTokens);
    for (const float bad : {too_large, -too_large, NAN}) {
      for (const bool in_key : {false, true}) {
        AttentionSequence broken = seq;
        (in_key ? broken.k : broken.v)[kBad * shape.dim + 7] = bad;
        for (const CpuIsa isa : available_isas()) {
          INFO(name_of(isa) << ", " << name_of(type) << ", " << bad << ", key " << in_key);
          const std::vector<float> right = run(shape, seq, isa), found = run(shape, broken, isa);
          const size_t width = static_cast<size_t>(shape.heads) * shape.dim;
          int64_t wrong = 0;
          for (size_t i = 0; i < found.size(); ++i) {
            const int token = static_cast<int>(i / width);
            const bool sees = token >= kBad && token < kBad + kWindow;
            const bool is_all = in_key || type == DType::kI8 || i % shape.dim == 7;
            wrong += sees && is_all ? !std::isnan(found[i]) : !same(found[i], right[i]);
          }
          CHECK(wrong == 0);
        }
      }
    }
  }
}
