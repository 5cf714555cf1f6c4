// The source of the GPU's attention, run on the CPU: against attention in double, and against
// itself with other chunks, blocks and plans.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/attention.h"
#include "tests/emulated_cuda/device_support.h"
#include "tests/emulated_cuda/runtime.h"
#include "tests/support/stored_rows.h"

namespace pagedinfer::kernels {
namespace {

struct Shape {
  int heads, kv_heads, dim, window;
  bool int8 = false;  // the cache
  float softcap = 0.0f;
  float values = 1.0f;  // their size
  float sinks = 0.0f;   // of head 0, one less for each head after it; 0: none

  int group() const { return heads / kv_heads; }
  std::vector<float> all_sinks() const {
    std::vector<float> all;
    for (int head = 0; head < heads && sinks != 0.0f; ++head) {
      all.push_back(sinks - static_cast<float>(head));
    }
    return all;
  }
};

// A sequence's numbers as the model would compute them, and the outputs.
template <class T>
struct Sequence {
  int tokens;
  std::vector<float> q, k, v;           // (tokens, heads * dim), (tokens, kv_heads * dim) twice
  StoredRows k_rows = {}, v_rows = {};  // of int8; k and v are what they stand for
  std::vector<T> out = {};

  Sequence(Random& random, const Shape& shape, int num_tokens) : tokens(num_tokens) {
    const auto make = [&](int heads, float scale) {
      auto x = random.normals(static_cast<size_t>(tokens) * heads * shape.dim, scale);
      for (float& a : x) a = rounded<T>(a);
      return x;
    };
    q = make(shape.heads, 2), k = make(shape.kv_heads, 1), v = make(shape.kv_heads, shape.values);
    if (!shape.int8) return;
    k_rows = store_rows(k, shape.dim, DType::kI8), v_rows = store_rows(v, shape.dim, DType::kI8);
    for (size_t i = 0; i < k.size(); ++i) {
      const size_t row = i / static_cast<size_t>(shape.dim);
      k[i] = k_rows.numbers[i] * k_rows.scales[row];
      v[i] = v_rows.numbers[i] * v_rows.scales[row];
    }
  }
};

// The largest error of a few rows against attention in double.
template <class T>
double worst_error(Random& random, const Shape& shape, const Sequence<T>& seq) {
  double worst = 0;
  for (int i = 0; i < 12; ++i) {
    const int token = i == 0 ? seq.tokens - 1 : random.below(seq.tokens);
    const int head = random.below(shape.heads), kv_head = head / shape.group();
    const int first = shape.window > 0 ? std::max(0, token + 1 - shape.window) : 0;
    const auto kv = [&](int key) { return (key * shape.kv_heads + kv_head) * shape.dim; };
    const float* const q = &seq.q[(token * shape.heads + head) * shape.dim];
    std::vector<double> p;
    for (int key = first; key <= token; ++key) {
      double score = 0;
      for (int d = 0; d < shape.dim; ++d) score += double{q[d]} * seq.k[kv(key) + d];
      score /= std::sqrt(double(shape.dim));
      if (shape.softcap > 0) score = shape.softcap * std::tanh(score / shape.softcap);
      p.push_back(score);
    }
    const std::vector<float> sinks = shape.all_sinks();
    double largest = *std::max_element(p.begin(), p.end()), sum = 0;
    if (!sinks.empty()) {
      largest = std::max(largest, double{sinks[head]});
      sum = std::exp(sinks[head] - largest);
    }
    for (double& x : p) sum += x = std::exp(x - largest);
    for (int d = 0; d < shape.dim; ++d) {
      double out = 0;
      for (int key = first; key <= token; ++key) out += p[key - first] * seq.v[kv(key) + d];
      const float got = to_float(seq.out[(token * shape.heads + head) * shape.dim + d]);
      const double error = std::abs(out / sum - got);
      if (!(error <= worst)) worst = error;  // NaN too
    }
  }
  return worst;
}

// Computes all sequences together, a chunk of each per step, in scattered blocks. Cache positions
// that no token has been written to are NaN.
template <class T, class ChunkOf>
void run(Random& random, const Shape& shape, std::vector<Sequence<T>>& seqs, int block_size,
         int64_t max_states, const ChunkOf& chunk_of, bool restarts = true) {
  const int num_seqs = static_cast<int>(seqs.size()), q_width = shape.heads * shape.dim;
  int max_blocks = 1;
  for (const auto& s : seqs) max_blocks = std::max(max_blocks, ceil_div(s.tokens, block_size));
  std::vector<int> firsts(num_seqs * max_blocks);
  for (size_t i = 0; i < firsts.size(); ++i) firsts[i] = 3 + static_cast<int>(i) * block_size;
  for (size_t i = firsts.size(); i > 1; --i) {
    std::swap(firsts[i - 1], firsts[random.below(static_cast<int>(i))]);
  }
  const int64_t positions = 3 + static_cast<int64_t>(firsts.size()) * block_size;
  const int element_bytes = shape.int8 ? 1 : sizeof(T);
  const int64_t bytes = positions * kv_position_bytes(element_bytes, shape.kv_heads, shape.dim);
  NanBytes k_bytes(bytes), v_bytes(bytes), k_scales(positions * shape.kv_heads * 4),
      v_scales(positions * shape.kv_heads * 4);
  KvCache cache = {k_bytes.as<void>(), v_bytes.as<void>(), shape.kv_heads, shape.dim, positions};
  if (shape.int8) cache.k_scale = k_scales.as<float>(), cache.v_scale = v_scales.as<float>();
  const int row = kv_row_elements(shape.dim, element_bytes);
  std::vector<int> done(num_seqs);
  for (auto& s : seqs) s.out.assign(s.q.size(), {});

  while (true) {
    std::vector<int> part, starts = {0}, tokens, table;
    for (int s = 0; s < num_seqs; ++s) {
      const int left = seqs[s].tokens - done[s], count = std::min(left, chunk_of(left));
      if (count == 0) continue;
      part.push_back(s);
      for (int t = done[s]; t < done[s] + count; ++t) {
        tokens.push_back(t);
        const int slot = firsts[s * max_blocks + t / block_size] + t % block_size;
        for (int i = 0; i < shape.kv_heads * shape.dim; ++i) {
          const int64_t at = kv_offset(i / shape.dim, slot, positions, row) + i % shape.dim;
          const int from = t * shape.kv_heads * shape.dim + i;
          if (shape.int8) {
            const int64_t scale = kv_offset(i / shape.dim, slot, positions, 1);
            cache.k_scale[scale] = seqs[s].k_rows.scales[from / shape.dim];
            cache.v_scale[scale] = seqs[s].v_rows.scales[from / shape.dim];
            static_cast<int8_t*>(cache.k)[at] = static_cast<int8_t>(seqs[s].k_rows.numbers[from]);
            static_cast<int8_t*>(cache.v)[at] = static_cast<int8_t>(seqs[s].v_rows.numbers[from]);
            continue;
          }
          static_cast<T*>(cache.k)[at] = from_float<T>(seqs[s].k[from]);
          static_cast<T*>(cache.v)[at] = from_float<T>(seqs[s].v[from]);
        }
      }
      done[s] += count;
      starts.push_back(static_cast<int>(tokens.size()));
      for (int b = 0; b < max_blocks; ++b) {
        table.push_back(b * block_size < done[s] ? firsts[s * max_blocks + b] : -1'000'000'000);
      }
    }
    if (part.empty()) return;

    const int num_tokens = static_cast<int>(tokens.size());
    GuardedMatrix<T> q(random, num_tokens, q_width, true), out(random, num_tokens, q_width, true);
    const auto for_each = [&](const auto& f) {
      for (size_t i = 0; i < part.size(); ++i) {
        for (int t = starts[i]; t < starts[i + 1]; ++t) {
          for (int c = 0; c < q_width; ++c) f(seqs[part[i]], tokens[t] * q_width + c, t, c);
        }
      }
    };
    for_each([&](auto& s, int at, int t, int c) { q.at(t, c) = from_float<T>(s.q[at]); });
    AttentionPlan plan;
    const AttentionLimits limits = {.max_states = max_states,
                                    .blocks_at_once = random.below(2) ? 1000 : 1};
    plan_attention(starts, tokens, shape.group(), shape.window, limits, plan);
    const int num_cuts = std::max(plan.small.num_cuts, plan.large.num_cuts);
    std::vector<uint32_t> counters(attention_counters(num_cuts, shape.kv_heads));
    NanBytes workspace(attention_workspace_bytes(plan.num_states, shape.kv_heads, shape.dim));
    const auto work = [](const AttentionTiles& tiles) {
      return AttentionWork{tiles.items.data(), static_cast<int>(tiles.items.size())};
    };
    const bool only_large = shape.int8 && shape.dim == 256;  // else the slow kernel runs
    const std::vector<float> sinks = shape.all_sinks();
    emulated::settings().shared_memory = (only_large || random.below(2) ? 227 : 99) << 10;
    launch_attention({.type = kTypeOf<T>,
                      .q = q.matrix(),
                      .out = out.matrix(),
                      .cache = cache,
                      .heads = shape.heads,
                      .scale = 1 / std::sqrt(static_cast<float>(shape.dim)),
                      .window = shape.window,
                      .softcap = shape.softcap,
                      .sinks = sinks.empty() ? nullptr : sinks.data(),
                      .positions = tokens.data(),
                      .query_starts = starts.data(),
                      .block_table = table.data(),
                      .num_tokens = num_tokens,
                      .num_seqs = static_cast<int>(part.size()),
                      .max_blocks = max_blocks,
                      .block_size = block_size,
                      .small = work(plan.small),
                      .large = work(plan.large),
                      .num_states = plan.num_states,
                      .max_shared_bytes = emulated::settings().shared_memory,
                      .restarts = restarts,
                      .workspace = workspace.as<void>(),
                      .counters = counters.data()},
                     nullptr);
    emulated::settings() = {};
    CHECK(std::ranges::count(counters, 0u) == std::ssize(counters));
    CHECK(out.guards_are_whole());
    for_each([&](auto& s, int at, int t, int c) { s.out[at] = out.at(t, c); });
  }
}

template <class T>
void check(Random& random, const Shape& shape, int max_tokens, double tolerance) {
  CAPTURE(shape.dim);
  CAPTURE(shape.heads);
  CAPTURE(shape.window);
  std::vector<Sequence<T>> seqs;
  for (int s = 0; s < 2; ++s) {
    seqs.emplace_back(random, shape, s == 0 ? max_tokens : random.between(1, max_tokens));
  }
  const auto block_size = [&] { return std::array{1, 7, 16, 64, 4096}[random.below(5)]; };
  run(random, shape, seqs, block_size(), 1000, [](int left) { return left; });
  for (const auto& s : seqs) CHECK(worst_error(random, shape, s) < tolerance);
  std::vector<std::vector<T>> whole;
  for (const auto& s : seqs) whole.push_back(s.out);
  const auto compare = [&] {
    for (size_t s = 0; s < seqs.size(); ++s) {
      CHECK(std::memcmp(seqs[s].out.data(), whole[s].data(), whole[s].size() * sizeof(T)) == 0);
    }
  };
  // The last tokens one by one; then chunks of random sizes.
  run(random, shape, seqs, block_size(), random.below(2) ? 1000 : 10,
      [](int left) { return left > 3 ? left - 3 : 1; });
  compare();
  run(random, shape, seqs, block_size(), random.below(2) ? 1000 : 10,
      [&](int) { return random.between(1, 90); });
  compare();
  // Tiles of many rows that are cut, some of whose rows do not see every segment.
  run(random, shape, seqs, block_size(), 1000, [&](int) { return 100 / shape.group(); });
  compare();
}

}  // namespace

TEST_CASE("the GPU's attention is right, and the same bits in any chunks, blocks and plans") {
  Random random{1};
  check<__nv_bfloat16>(random, {4, 2, 64, 0}, 300, 1e-2);
  check<__half>(random, {4, 1, 64, 100}, 350, 2e-3);
  check<__nv_bfloat16>(random, {3, 1, 80, 40}, 150, 1e-2);
  check<__half>(random, {2, 2, 96, 0}, 150, 2e-3);
  check<__nv_bfloat16>(random, {2, 1, 128, 0}, 270, 1e-2);
  check<__nv_bfloat16>(random, {2, 1, 256, 0}, 100, 1e-2);
  check<__nv_bfloat16>(random, {20, 1, 64, 0}, 280, 1e-2);   // more than a small tile
  check<__nv_bfloat16>(random, {2, 1, 64, 300}, 600, 1e-2);  // windows over segments
}

TEST_CASE("the GPU's attention over rows of int8 is right, and the same bits in any chunks") {
  Random random{4};
  check<__nv_bfloat16>(random, {4, 2, 64, 0, true}, 300, 1.5e-2);
  check<__half>(random, {4, 1, 64, 100, true}, 350, 3e-3);
  check<__nv_bfloat16>(random, {3, 1, 80, 40, true}, 150, 1.5e-2);
  check<__half>(random, {2, 2, 96, 0, true}, 150, 3e-3);
  check<__nv_bfloat16>(random, {2, 1, 128, 0, true}, 270, 1.5e-2);
  check<__half>(random, {2, 1, 256, 0, true}, 100, 3e-3);
  check<__nv_bfloat16>(random, {20, 1, 64, 0, true}, 280, 1.5e-2);
  check<float>(random, {4, 2, 48, 0, true}, 300, 1e-5);
  check<__nv_bfloat16>(random, {2, 2, 20, 270, true}, 300, 1.5e-2);
}

TEST_CASE("sinks take part in the GPU's softmax, below and above the scores") {
  Random random{6};
  for (const float sinks : {-2.0f, 9.0f}) {
    CAPTURE(sinks);
    const auto shape = [&](int heads, int kv_heads, int dim, int window, bool int8 = false) {
      return Shape{heads, kv_heads, dim, window, int8, 0.0f, 1.0f, sinks};
    };
    check<__nv_bfloat16>(random, shape(4, 2, 64, 0), 300, 1e-2);
    check<__half>(random, shape(4, 1, 64, 100), 600, 2e-3);
    check<__half>(random, shape(4, 1, 64, 0, true), 300, 3e-3);
    check<__nv_bfloat16>(random, shape(3, 1, 80, 0), 150, 1e-2);  // a tile ends within a token
    check<float>(random, shape(4, 2, 48, 0), 300, 1e-5);
  }
}

TEST_CASE("float16 attention over rows of int8 is as close where values are small or large") {
  Random random{5};
  for (const float size : {1e-3f, 1e-4f, 1e4f}) {
    CAPTURE(size);
    for (const int dim : {64, 128}) {
      const Shape shape = {
          .heads = 4, .kv_heads = 2, .dim = dim, .window = 0, .int8 = true, .values = size};
      check<__half>(random, shape, 300, 3e-3 * static_cast<double>(size));
    }
  }
}

TEST_CASE("the GPU's attention is right without restarts of the softmax") {
  Random random{3};
  const auto check_near = [&](auto type, const Shape& shape, int max_tokens, double tolerance) {
    using T = decltype(type);
    CAPTURE(shape.dim);
    CAPTURE(shape.window);
    std::vector<Sequence<T>> seqs;
    for (int s = 0; s < 2; ++s) {
      seqs.emplace_back(random, shape, s == 0 ? max_tokens : random.between(1, max_tokens));
    }
    const std::vector<int> chunks = {1000, random.between(100, 250)};
    for (const int chunk : chunks) {
      run(
          random, shape, seqs, 16, 1000, [&](int) { return chunk; }, false);
      for (const auto& s : seqs) CHECK(worst_error(random, shape, s) < tolerance);
    }
  };
  check_near(__nv_bfloat16{}, {4, 2, 64, 0}, 600, 1e-2);
  check_near(__half{}, {4, 1, 64, 100}, 350, 2e-3);
  check_near(__nv_bfloat16{}, {3, 1, 80, 40}, 300, 1e-2);
  check_near(__half{}, {2, 2, 96, 0}, 300, 2e-3);
  check_near(__nv_bfloat16{}, {2, 1, 128, 0}, 400, 1e-2);
  check_near(__nv_bfloat16{}, {2, 1, 128, 300}, 600, 1e-2);
  check_near(__half{}, {2, 1, 256, 0}, 300, 2e-3);
  check_near(__half{}, {.heads = 4, .kv_heads = 2, .dim = 64, .window = 0, .sinks = 3.0f}, 300,
             2e-3);
}

TEST_CASE("the GPU's attention is right for any head size, for float32 and with soft caps") {
  Random random{2};
  check<float>(random, {4, 2, 48, 0}, 300, 1e-5);
  check<float>(random, {2, 1, 7, 30}, 280, 1e-5);
  check<__nv_bfloat16>(random, {2, 2, 20, 270}, 300, 1e-2);
  check<float>(random, {2, 1, 24, 40, false, 1.5f}, 290, 1e-5);
  check<__nv_bfloat16>(random, {4, 2, 64, 0, false, 3.0f}, 100, 1e-2);
}

}  // namespace pagedinfer::kernels
