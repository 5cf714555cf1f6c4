// Attention on AMX tiles, with plain loops in place of the processor's tiles, so that its layout,
// its masks and what it reads are tested on every machine. test_attention.cpp runs the real tiles
// if the processor has them.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/denormals.h"
#include "ops/cpu/amx_attention_kernel.h"
#include "tests/support/ops_support.h"
#include "tests/support/plain_tiles.h"

namespace pagedinfer {

namespace {

constexpr int kHeads = 2, kHead = 1;
constexpr float kNan = __builtin_nanf("");

// A cache of one layer, and the rows of a chunk at the end of a context.
struct Problem {
  Problem(Random& random, int context, int num_rows, int group, int dim_, int window, int size)
      : dim(dim_), block_size(size) {
    const int blocks = (context + size - 1) / size;
    for (int i = 0; i < blocks; ++i) table.push_back(i * size);
    for (int i = blocks - 1; i > 0; --i) std::swap(table[i], table[random.below(i + 1)]);
    keys.assign(padded_positions(int64_t{blocks} * size) * kHeads * dim,
                bf16{0x7fc0});  // NaN where free
    values = keys;
    for (int r = 0; r < num_rows; ++r) {
      positions.push_back(context - (num_rows + group - 1) / group + r / group);
    }
    const int oldest = window > 0 ? positions[0] + 1 - window : 0;
    for (int position = std::max(0, oldest); position < context; ++position) {
      for (int d = 0; d < dim; ++d) {
        *key(position, d) = random_number(random), *value(position, d) = random_number(random);
      }
    }
    const std::vector<float> numbers = random.normals(size_t(num_rows) * dim, 1.0f);
    for (const float x : numbers) q.push_back(from_bits(bits_of(x) & 0xffff0000));
    rows = {.q = q.data(),
            .positions = positions.data(),
            .num_rows = num_rows,
            .head_dim = dim,
            .window = window,
            .block_table = table.data(),
            .block_size = size,
            .kv_head = kHead,
            .kv_heads = kHeads,
            .k_scale = nullptr,
            .v_scale = nullptr,
            .softcap = 0,
            .scratch = room(scratch),
            .after = {}};
  }

  static bf16 random_number(Random& random) {
    return {static_cast<uint16_t>(bits_of(random.normal()) >> 16)};
  }
  int64_t row_of(int position) const {
    return kv_row(table[position / block_size] + position % block_size, kHead, kHeads);
  }
  bf16* key(int position, int d) {
    return &keys[key_unit(row_of(position), d / 2, dim / 2) * 2 + d % 2];
  }
  bf16* value(int position, int d) { return &values[row_of(position) * dim + d]; }
  static float* room(std::vector<float>& memory) {
    memory.resize(kAttentionScratch + 16);
    return reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  }

  // The outputs of the last segments from `first` on.
  template <class Attend>
  std::vector<float> outputs(int first, const Attend& attend) {
    std::vector<float> largest(kMaxAttentionRows), sum(kMaxAttentionRows);
    std::vector<float> out(size_t(kMaxAttentionRows) * dim, 7.0f);
    const AttentionState state = {largest.data(), sum.data(), out.data()};
    attend(Segments{first, positions.back() / kSegmentKeys + 1, false}, state);
    kPortableKernels.attention_bf16.divide(state, rows.num_rows, dim);
    out.resize(size_t(rows.num_rows) * dim);
    return out;
  }

  const int dim, block_size;
  std::vector<int> table, positions;
  std::vector<bf16> keys, values;
  std::vector<float> q, scratch;
  AttentionRows rows;
};

// The number of outputs whose bits differ from the portable kernels'.
int num_wrong(Problem& problem, int first_segment) {
  const FlushDenormals guard;
  const AttentionKernels& plain = kPortableKernels.attention_bf16;
  const void *k = problem.keys.data(), *v = problem.values.data();
  const auto right =
      problem.outputs(first_segment, [&](const Segments& segments, AttentionState state) {
        plain.attend(problem.rows, k, v, segments, state);
      });
  const auto found =
      problem.outputs(first_segment, [&](const Segments& segments, AttentionState state) {
        REQUIRE(TileAttention<PlainBf16Tiles>::can_attend(problem.rows, segments));
        TileAttention<PlainBf16Tiles>(problem.rows, problem.keys.data(), problem.values.data(),
                                      plain, state)
            .run(segments);
      });
  return count_differences(found, right);
}

}  // namespace

TEST_CASE("attention on tiles has the bits of the portable kernels") {
  Random random{3};
  for (int round = 0; round < 24; ++round) {
    const int group = random.between(1, 5), num_rows = random.between(1, 70);
    const int context = (num_rows + group - 1) / group + random.below(600);
    const int window = random.below(2) ? random.between(1, context + 20) : 0;
    Problem problem(random, context, num_rows, group, 32 * random.between(1, 4), window,
                    16 << random.below(6));
    if (random.below(3) == 0) problem.rows.softcap = 2.5f;
    const int oldest = window > 0 ? std::max(0, problem.positions[0] + 1 - window) : 0;
    CAPTURE(context);
    CAPTURE(num_rows);
    CAPTURE(group);
    CAPTURE(window);
    CAPTURE(problem.dim);
    CHECK(num_wrong(problem, oldest / kSegmentKeys) == 0);
  }
}

TEST_CASE("a value that is not finite on tiles reaches only rows that see it") {
  Random random{4};
  for (const float bad : {kNan, INFINITY, -INFINITY}) {
    for (const int position : {0, 130, 299, 340}) {
      Problem problem(random, 350, 60, 1, 64, position == 0 ? 100 : 0, 16);
      const uint16_t bits = static_cast<uint16_t>(bits_of(bad) >> 16);
      *problem.value(position, 5) = {bits};
      CHECK(num_wrong(problem, 0) == 0);
    }
  }
}

TEST_CASE("scores that are not finite have the same outcome on tiles") {
  Random random{6};
  for (int round = 0; round < 12; ++round) {
    Problem problem(random, 400, 60, 2, 64, random.below(2) ? 150 : 0, 16);
    const int oldest = problem.rows.window > 0 ? problem.positions[0] + 1 - 150 : 0;
    const float bad[] = {-INFINITY, INFINITY, kNan};
    const auto bits = [](float x) { return bf16{static_cast<uint16_t>(bits_of(x) >> 16)}; };
    if (round % 2 == 0) {  // all scores of a segment are infinite, or some
      for (float& x : problem.q) x = std::abs(x);
      const int first = random.below(2) ? 256 : oldest, end = first < 256 ? 256 : 400;
      for (int key = first; key < end; ++key) *problem.key(key, 3) = bits(-INFINITY);
      if (random.below(2)) *problem.value(first + 1, 7) = bits(INFINITY);
    }
    for (int i = random.below(3); i > 0; --i) {
      *problem.key(random.between(oldest, 399), 5) = bits(bad[random.below(3)]);
    }
    CAPTURE(round);
    CHECK(num_wrong(problem, oldest / kSegmentKeys) == 0);
  }
}

TEST_CASE("tiles are not used for keys in other groups or dimensions that do not fill them") {
  Random random{5};
  Problem problem(random, 300, 40, 1, 64, 0, 16);
  using Attention = TileAttention<PlainBf16Tiles>;
  const Segments all = {0, 2, false};
  CHECK(Attention::can_attend(problem.rows, all));
  AttentionRows rows = problem.rows;
  rows.block_size = 8;
  CHECK_FALSE(Attention::can_attend(rows, all));
  rows.block_size = 16, rows.head_dim = 80;
  CHECK_FALSE(Attention::can_attend(rows, all));
  problem.table[3] += 8;
  CHECK_FALSE(Attention::can_attend(problem.rows, all));
  // A block that has left the window may be anywhere.
  problem.rows.window = 50;
  CHECK(Attention::can_attend(problem.rows, {0, 2, false}));
}

}  // namespace pagedinfer
