// The source of the GPU's row operations, run on the CPU, against their formulas in double.
#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "kernels/drawn_tokens.h"
#include "kernels/elementwise.h"
#include "kernels/kv.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "tests/emulated_cuda/device_support.h"
#include "tests/support/stored_rows.h"

namespace pagedinfer::kernels {
namespace {

template <class T>
constexpr double kRounding = sizeof(T) == 4              ? 1e-6
                             : std::is_same_v<T, __half> ? 5e-4
                                                         : 4e-3;

// Whether every element of `got` is within a few roundings of want(row, column), and of `terms`
// that were added to get it.
template <class T, class F>
bool is_near(GuardedMatrix<T>& got, int rows, int cols, const F& want, double terms = 0.2) {
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < cols; ++j) {
      const double x = want(i, j);
      if (!(std::abs(got(i, j) - x) <= 3 * kRounding<T> * (std::abs(x) + terms))) return false;
    }
  }
  return got.guards_are_whole();
}

int random_width(Random& random, bool vectors) {
  return vectors ? 8 * (1 + random.below(random.below(4) ? 60 : 2200)) : 1 + random.below(700);
}

template <class T>
void check_elementwise(Random& random) {
  const bool vectors = random.below(2);
  const int rows = random.below(6), cols = random_width(random, vectors);
  GuardedMatrix<T> table(random, 9, cols, vectors), x(random, rows, cols, vectors),
      y(random, rows, cols, vectors), bias(random, 1, cols, vectors),
      out(random, rows, cols, vectors);
  for (auto* m : {&table, &x, &y, &bias}) m->fill(random);
  std::vector<int32_t> ids(rows);
  for (int32_t& id : ids) id = random.below(9);
  launch_embed({kTypeOf<T>, table.matrix(), ids.data(), 1.5f, out.matrix(), rows, cols}, nullptr);
  CHECK(is_near(out, rows, cols, [&](int i, int j) { return 1.5 * table(ids[i], j); }));
  launch_gather_rows({kTypeOf<T>, table.matrix(), ids.data(), out.matrix(), rows, cols}, nullptr);
  CHECK(is_near(out, rows, cols, [&](int i, int j) { return table(ids[i], j); }));
  for (const bool gelu : {false, true}) {
    launch_gate({kTypeOf<T>, x.matrix(), y.matrix(), out.matrix(), rows, cols, gelu}, nullptr);
    CHECK(is_near(out, rows, cols, [&](int i, int j) {
      const double a = x(i, j), u = std::sqrt(2 / M_PI) * (a + 0.044715 * a * a * a);
      return (gelu ? a / 2 * (1 + std::tanh(u)) : a / (1 + std::exp(-a))) * y(i, j);
    }));
  }
  launch_gather_rows({kTypeOf<T>, x.matrix(), std::vector<int32_t>{0, 1, 2, 3, 4, 5}.data(),
                      out.matrix(), rows, cols},
                     nullptr);
  launch_scale({kTypeOf<T>, out.matrix(), rows, cols, 0.7f}, nullptr);
  CHECK(is_near(out, rows, cols, [&](int i, int j) { return 0.7 * x(i, j); }));
  launch_softcap({kTypeOf<T>, out.matrix(), rows, cols, 0.4f}, nullptr);
  CHECK(is_near(out, rows, cols, [&](int i, int j) {
    return 0.4 * std::tanh(to_float(from_float<T>(0.7f * x(i, j))) / 0.4);
  }));
  const bool one_row = random.below(2);
  GuardedMatrix<T>& other = one_row ? bias : y;
  launch_gather_rows({kTypeOf<T>, x.matrix(), std::vector<int32_t>{0, 1, 2, 3, 4, 5}.data(),
                      out.matrix(), rows, cols},
                     nullptr);
  launch_add({kTypeOf<T>, out.matrix(), other.matrix(), rows, cols, one_row}, nullptr);
  CHECK(is_near(out, rows, cols,
                [&](int i, int j) { return double{x(i, j)} + other(one_row ? 0 : i, j); }));
}

template <class T>
void check_norm(Random& random) {
  const bool vectors = random.below(2), has_residual = random.below(2), in_place = random.below(2);
  const bool is_double = has_residual && random.below(2);
  const int rows = random.below(5), runs = 1 + random.below(3),
            width = random_width(random, vectors);
  const int cols = runs * width;
  GuardedMatrix<T> x(random, rows, cols, vectors), residual(random, rows, cols, vectors),
      own_out(random, rows, cols, vectors);
  x.fill(random), residual.fill(random);
  GuardedMatrix<float> weight(random, 1, width, random.below(2)),
      x_weight(random, 1, width, random.below(2));
  weight.fill(random), x_weight.fill(random);
  std::vector<double> sums, wanted;
  for (int i = 0; i < rows; ++i) {
    for (int run = 0; run < runs; ++run) {
      double squares = 0, x_squares = 0;
      for (int j = run * width; j < (run + 1) * width; ++j) {
        x_squares += double{x(i, j)} * x(i, j);
      }
      for (int j = run * width; j < (run + 1) * width; ++j) {
        const double x_norm =
            x(i, j) / std::sqrt(x_squares / width + 1e-5) * (x_weight(0, j - run * width) + 1);
        const double term = is_double ? x_norm : x(i, j);
        sums.push_back(has_residual ? rounded<T>(term + residual(i, j)) : x(i, j));
        squares += sums.back() * sums.back();
      }
      for (int j = 0; j < width; ++j) {
        wanted.push_back(sums[sums.size() - width + j] / std::sqrt(squares / width + 1e-5) *
                         (weight(0, j) + 1));
      }
    }
  }
  GuardedMatrix<T>& out = in_place ? x : own_out;
  launch_rms_norm({.type = kTypeOf<T>,
                   .x = x.matrix(),
                   .residual = has_residual ? residual.matrix() : Matrix{nullptr, 0},
                   .weight = static_cast<float*>(weight.matrix().data),
                   .x_weight = is_double ? static_cast<float*>(x_weight.matrix().data) : nullptr,
                   .offset = 1.0f,
                   .eps = 1e-5f,
                   .out = out.matrix(),
                   .num_rows = rows,
                   .runs = runs,
                   .width = width},
                  nullptr);
  const double terms = is_double ? 5 : 0.2;
  CHECK(is_near(
      out, rows, cols, [&](int i, int j) { return wanted[i * cols + j]; }, terms));
  if (has_residual) {
    CHECK(is_near(
        residual, rows, cols, [&](int i, int j) { return sums[i * cols + j]; }, terms));
  }
}

template <class T>
void check_qkv(Random& random) {
  const bool vectors = random.below(2), has_norm = random.below(2), has_q = random.below(4);
  const int rows = random.below(6), heads = 1 + random.below(5), kv_heads = 1 + random.below(3);
  const int unit = vectors ? 8 : 1, pairs = unit * (1 + random.below(vectors ? 17 : 60));
  const int dim = 2 * pairs;
  // Rotated pairs: all, or some.
  const int half = random.below(2) ? pairs : unit * (1 + random.below(pairs / unit));
  const float limit = random.below(2) ? 0.0f : 0.9f;
  const float scale_of_table = random.below(2) ? 1.0f : 1.25f;
  GuardedMatrix<T> q(random, rows, heads * dim, vectors), k(random, rows, kv_heads * dim, vectors),
      v(random, rows, kv_heads * dim, vectors);
  for (auto* m : {&q, &k, &v}) m->fill(random);
  // The rows of q's table, then the rows of k's.
  GuardedMatrix<float> tables(random, 2 * rows, 2 * half, random.below(2)),
      weights(random, 2, dim, false);
  weights.fill(random);
  std::vector<int32_t> positions(rows), slots(20);
  std::vector<float> inv_freq = random.normals(half);
  for (int32_t& p : positions) p = random.below(1000);
  for (int i = 0; i < 20; ++i) slots[i] = (7 * i + 3) % 20;
  const std::vector<float> factors = random.normals(3);
  const int run = random.between(1, 500);
  float* const q_table = static_cast<float*>(tables.matrix().data);
  const int64_t stride = tables.matrix().stride;
  float* const k_table = q_table + rows * stride;
  launch_rope_table({positions.data(), inv_freq.data(), q_table, stride, rows, half, scale_of_table,
                     factors.data(), 3, run},
                    nullptr);
  launch_rope_table(
      {positions.data(), inv_freq.data(), k_table, stride, rows, half, scale_of_table}, nullptr);
  CHECK(is_near(tables, 2 * rows, 2 * half, [&](int i, int j) {
    const int position = positions[i % rows];
    const double angle = static_cast<float>(position) * inv_freq[j % half];
    const double factor = i < rows ? factors[std::min(position / run, 2)] : 1.0f;
    return factor * scale_of_table * (j < half ? std::cos(angle) : std::sin(angle));
  }));
  // Of a head whose numbers are at(0 .. dim - 1), by row i of the tables.
  const auto rotated = [&](int i, int j, const auto& at) {
    if (j >= 2 * half) return at(j);
    const int a = j % half, b = a + half;
    return j < half ? at(a) * tables(i, a) - at(b) * tables(i, b)
                    : at(b) * tables(i, a) + at(a) * tables(i, b);
  };
  std::vector<double> wanted_q, wanted_k;
  for (const bool is_q : {true, false}) {
    GuardedMatrix<T>& x = is_q ? q : k;
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < (is_q ? heads : kv_heads) * dim; ++j) {
        const int head = j / dim * dim;
        double squares = 0;
        for (int d = 0; d < dim; ++d) squares += double{x(i, head + d)} * x(i, head + d);
        const double scale = 1 / std::sqrt(squares / dim + 1e-5);
        (is_q ? wanted_q : wanted_k).push_back(rotated(is_q ? i : rows + i, j % dim, [&](int d) {
          const double a = x(i, head + d);
          const double normed = has_norm ? a * scale * (weights(is_q ? 0 : 1, d) + 0.5) : a;
          return limit > 0 ? std::clamp<double>(normed, -limit, limit) : normed;
        }));
      }
    }
  }
  const int64_t bytes = 20 * kv_position_bytes(kTypeOf<T>, kv_heads, dim);
  NanBytes k_bytes(bytes), v_bytes(bytes);
  const KvCache cache = {k_bytes.as<void>(), v_bytes.as<void>(), kv_heads, dim, 20};
  float* const weight = static_cast<float*>(weights.matrix().data);
  launch_qkv({.type = kTypeOf<T>,
              .q = has_q ? q.matrix() : Matrix{nullptr, 0},
              .k = k.matrix(),
              .v = v.matrix(),
              .num_rows = rows,
              .heads = heads,
              .q_weight = has_norm ? weight : nullptr,
              .k_weight = has_norm ? weight + weights.matrix().stride : nullptr,
              .offset = 0.5f,
              .eps = 1e-5f,
              .limit = limit,
              .q_table = q_table,
              .k_table = k_table,
              .table_stride = stride,
              .half = half,
              .slot_mapping = slots.data(),
              .cache = cache},
             nullptr);
  const auto cached = [&](void* of, int slot, int column) {
    const int row = kv_row_elements(dim, sizeof(T));
    return to_float(static_cast<T*>(of)[kv_offset(column / dim, slot, 20, row) + column % dim]);
  };
  if (has_q) {
    CHECK(
        is_near(q, rows, heads * dim, [&](int i, int j) { return wanted_q[i * heads * dim + j]; }));
  }
  const int kv_cols = kv_heads * dim;
  GuardedMatrix<T> got(random, rows, kv_cols, vectors);
  const auto fetch = [&](void* of, const auto& slot_of) {
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < kv_cols; ++j) got.at(i, j) = from_float<T>(cached(of, slot_of(i), j));
    }
  };
  const auto own = [&](int i) { return slots[i]; };
  fetch(cache.k, own);
  CHECK(is_near(got, rows, kv_cols, [&](int i, int j) { return wanted_k[i * kv_cols + j]; }));
  fetch(cache.v, own);
  CHECK(is_near(got, rows, kv_cols, [&](int i, int j) {
    return limit > 0 ? std::clamp(v(i, j), -limit, limit) : v(i, j);
  }));

  launch_write_kv({kTypeOf<T>, k.matrix(), v.matrix(), slots.data(), rows, cache}, nullptr);
  std::vector<int32_t> from(slots.begin(), slots.begin() + rows), to(rows);
  for (int i = 0; i < rows; ++i) to[i] = slots[10 + i];
  const std::vector<int32_t> counts(static_cast<size_t>(rows), 1);
  launch_copy_kv({kTypeOf<T>, from.data(), to.data(), counts.data(), rows, cache}, nullptr);
  fetch(cache.k, [&](int i) { return to[i]; });
  CHECK(is_near(got, rows, kv_cols, [&](int i, int j) { return k(i, j); }));
  fetch(cache.v, [&](int i) { return to[i]; });
  CHECK(is_near(got, rows, kv_cols, [&](int i, int j) { return v(i, j); }));
}

// Rows of int8: what is written has the bits of store_rows(), and is copied with its scales.
template <class T>
void check_int8(Random& random) {
  const bool vectors = random.below(2);
  const int rows = 1 + random.below(5), kv_heads = 1 + random.below(3), num_positions = 20;
  const int half = vectors ? 8 * (1 + random.below(17)) : 1 + random.below(60), dim = 2 * half;
  GuardedMatrix<T> k(random, rows, kv_heads * dim, vectors),
      v(random, rows, kv_heads * dim, vectors);
  for (auto* m : {&k, &v}) {
    m->fill(random, 3);
    if (random.below(4) == 0) m->at(0, random.below(dim)) = from_float<T>(INFINITY);
  }
  std::vector<int32_t> slots(num_positions);
  for (int i = 0; i < num_positions; ++i) slots[i] = (7 * i + 3) % num_positions;
  const int64_t bytes = num_positions * kv_position_bytes(1, kv_heads, dim);
  NanBytes k_bytes(bytes), v_bytes(bytes);
  std::vector<float> k_scales(kv_heads * num_positions, -1), v_scales(k_scales);
  const KvCache cache = {k_bytes.as<void>(), v_bytes.as<void>(), kv_heads,       dim,
                         num_positions,      k_scales.data(),    v_scales.data()};
  launch_qkv({.type = kTypeOf<T>,
              .q = {nullptr, 0},
              .k = k.matrix(),
              .v = v.matrix(),
              .num_rows = rows,
              .slot_mapping = slots.data(),
              .cache = cache},
             nullptr);
  const FlushDenormals guard;
  const auto differences = [&](GuardedMatrix<T>& x, void* of, const std::vector<float>& scales,
                               const auto& slot_of) {
    int64_t count = 0;
    for (int i = 0; i < rows; ++i) {
      std::vector<float> numbers;
      for (int j = 0; j < kv_heads * dim; ++j) numbers.push_back(x(i, j));
      const StoredRows expected = store_rows(numbers, dim, DType::kI8);
      for (int head = 0; head < kv_heads; ++head) {
        const int64_t row = kv_offset(head, slot_of(i), num_positions, 1);
        count += !same(scales[row], expected.scales[head]);
        for (int d = 0; d < dim; ++d) {
          const int8_t found = static_cast<int8_t*>(of)[row * kv_row_elements(dim, 1) + d];
          count += found != expected.numbers[head * dim + d];
        }
      }
    }
    return count;
  };
  const auto own = [&](int i) { return slots[i]; };
  CHECK(differences(k, cache.k, k_scales, own) == 0);
  CHECK(differences(v, cache.v, v_scales, own) == 0);
  const std::vector<int32_t> from(slots.begin(), slots.begin() + rows),
      to(slots.begin() + 10, slots.begin() + 10 + rows), counts(static_cast<size_t>(rows), 1);
  launch_copy_kv({kTypeOf<T>, from.data(), to.data(), counts.data(), rows, cache}, nullptr);
  const auto copied = [&](int i) { return to[i]; };
  CHECK(differences(k, cache.k, k_scales, copied) == 0);
  CHECK(differences(v, cache.v, v_scales, copied) == 0);
  CHECK(std::ranges::count(k_scales, -1.0f) == kv_heads * (num_positions - 2 * rows));
}

template <class Check>
void for_types(uint64_t seed, const Check& check) {
  Random random{seed};
  for (int round = 0; round < 25; ++round) {
    check(random, float{});
    check(random, __nv_bfloat16{});
    check(random, __half{});
  }
}

}  // namespace

TEST_CASE("the GPU's elementwise operations follow their formulas for any strides") {
  for_types(1, [](Random& random, auto type) { check_elementwise<decltype(type)>(random); });
}

TEST_CASE("the GPU replaces placeholder tokens and no others") {
  Random random{4};
  for (const int count : {0, 1, 255, 256, 257, 2000}) {
    std::vector<int32_t> drawn(1 + random.below(300)), tokens(count + 1), wanted;
    for (int32_t& token : drawn) token = random.below(5) ? random.below(1000) : -1;
    for (int32_t& token : tokens) {
      const int row = random.below(static_cast<int>(drawn.size()));
      const bool stands = random.below(2);
      token = stands ? -1 - row : random.below(1000);
      wanted.push_back(!stands ? token : drawn[row] < 0 ? 0 : drawn[row]);
    }
    wanted.back() = tokens.back();  // beyond the last
    launch_resolve_tokens({tokens.data(), drawn.data(), count}, nullptr);
    CHECK(tokens == wanted);
  }
}

TEST_CASE("the GPU's norms follow their formula for any width") {
  for_types(2, [](Random& random, auto type) { check_norm<decltype(type)>(random); });
}

TEST_CASE("the GPU writes rows of int8 as the CPU does, and copies them with their scales") {
  for_types(6, [](Random& random, auto type) { check_int8<decltype(type)>(random); });
}

TEST_CASE("the GPU copies runs of positions of any length") {
  Random random{7};
  for (int round = 0; round < 20; ++round) {
    const int dim = 8 * random.between(1, 16), kv_heads = random.between(1, 3), positions = 500;
    const int64_t row = kv_row_elements(dim, 2), elements = positions * kv_heads * row;
    std::vector<uint16_t> k(elements), v(elements);
    for (int64_t i = 0; i < elements; ++i) k[i] = i % 65521, v[i] = i % 65519;
    std::vector<uint16_t> expected_k = k, expected_v = v;
    const std::vector<int32_t> from = {1, 120}, to = {250, 400},
                               counts = {random.between(1, 119), random.between(1, 100)};
    for (size_t c = 0; c < 2; ++c) {
      for (int head = 0; head < kv_heads; ++head) {
        for (int64_t i = 0; i < counts[c] * row; ++i) {
          const int64_t at = kv_offset(head, to[c], positions, row) + i,
                        before = kv_offset(head, from[c], positions, row) + i;
          expected_k[at] = k[before], expected_v[at] = v[before];
        }
      }
    }
    const KvCache cache = {k.data(), v.data(), kv_heads, dim, positions};
    launch_copy_kv({Type::kBF16, from.data(), to.data(), counts.data(), 2, cache}, nullptr);
    CHECK(k == expected_k);
    CHECK(v == expected_v);
  }
}

TEST_CASE("the GPU's norm of a norm and a sum has the bits of the two norms") {
  for_types(5, [](Random& random, auto type) {
    using T = decltype(type);
    const bool vectors = random.below(2);
    const int rows = 1 + random.below(4);
    const int width = vectors ? 8 * (1 + random.below(450)) : 1 + random.below(700);
    GuardedMatrix<T> x(random, rows, width, vectors), y(random, rows, width, vectors),
        sum(random, rows, width, vectors), other_sum(random, rows, width, vectors),
        out(random, rows, width, vectors), other_out(random, rows, width, vectors);
    GuardedMatrix<float> weights(random, 2, (width + 3) / 4 * 4, true);
    for (auto* m : {&x, &sum}) m->fill(random);
    weights.fill(random);
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < width; ++j) other_sum.at(i, j) = sum.at(i, j);
    }
    float* const first = static_cast<float*>(weights.matrix().data);
    RmsNormArgs args = {.type = kTypeOf<T>,
                        .x = x.matrix(),
                        .residual = sum.matrix(),
                        .weight = first,
                        .x_weight = first + weights.matrix().stride,
                        .offset = 1.0f,
                        .eps = 1e-6f,
                        .out = out.matrix(),
                        .num_rows = rows,
                        .runs = 1,
                        .width = width};
    launch_rms_norm(args, nullptr);
    args.weight = std::exchange(args.x_weight, nullptr);
    args.residual = {nullptr, 0};
    args.out = y.matrix();
    launch_rms_norm(args, nullptr);
    args.weight = first;
    args.x = y.matrix(), args.residual = other_sum.matrix(), args.out = other_out.matrix();
    launch_rms_norm(args, nullptr);
    int64_t differences = 0;
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < width; ++j) {
        differences += out(i, j) != other_out(i, j) || sum(i, j) != other_sum(i, j);
      }
    }
    CHECK(differences == 0);
    CHECK((x.guards_are_whole() && sum.guards_are_whole() && out.guards_are_whole()));
  });
}

TEST_CASE("the GPU normalizes and rotates heads and writes them to their slots") {
  for_types(3, [](Random& random, auto type) { check_qkv<decltype(type)>(random); });
}

}  // namespace pagedinfer::kernels
