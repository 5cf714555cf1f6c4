// Operations on rows against their definitions, in every build and for every tail.
#include <doctest/doctest.h>

#include <functional>

#include "tests/support/ops_support.h"
#include "tests/support/stored_rows.h"

using namespace pagedinfer;

namespace {

std::vector<float> exp_of(std::vector<float> x) {
  kPortableKernels.exp(x.data(), x.data(), std::ssize(x));
  return x;
}

void check_length(Random& random, int n) {
  const std::vector<float> x = random.normals(n, 3), w = random.normals(n);
  const auto each = [&](const auto& f) {
    std::vector<float> y(n);
    for (int i = 0; i < n; ++i) y[i] = f(i);
    return y;
  };
  const std::vector<float> squares = each([&](int i) { return x[i] * x[i]; });
  const float scale = 1.0f / std::sqrt(interleaved_sum(squares) / static_cast<float>(n) + 1e-6f);
  const auto norm = each([&](int i) { return x[i] * scale * (w[i] + 1.0f); });
  const auto minus = exp_of(each([&](int i) { return 0.0f - x[i]; }));
  const auto inner = exp_of(each([&](int i) {
    return x[i] * (-1.5957691216057308f + -0.07135481627260025f * (x[i] * x[i]));
  }));
  const auto silu = each([&](int i) { return x[i] / (1.0f + minus[i]) * w[i]; });
  const auto gelu = each([&](int i) { return x[i] / (1.0f + inner[i]) * w[i]; });
  const auto weights = exp_of(each([&](int i) { return (x[i] - 2.0f) / 0.7f; }));
  for (int i = 0; i < n; ++i) {
    const double a = x[i], u = std::sqrt(2 / M_PI) * (a + 0.044715 * a * a * a);
    CHECK(std::abs(silu[i] - a / (1 + std::exp(-a)) * w[i]) < 4e-7 * (1 + std::abs(silu[i])));
    CHECK(std::abs(gelu[i] - a / 2 * (1 + std::tanh(u)) * w[i]) < 4e-7 * (1 + std::abs(gelu[i])));
  }

  for (const Kernels* k : usable_kernels()) {
    INFO(k->name << ", length " << n);
    // One guard element, which must not change.
    const auto is = [&](const std::vector<float>& right, const std::function<void(float*)>& f) {
      std::vector<float> y(n + 1, 77.0f);
      f(y.data());
      CHECK(y.back() == 77.0f);
      y.pop_back();
      CHECK(count_differences(y, right) == 0);
    };
    CHECK(same(k->sum(x.data(), n), interleaved_sum(x)));
    CHECK(k->largest(x.data(), n) == *std::max_element(x.begin(), x.end()));
    is(norm, [&](float* y) { k->rms_norm(x.data(), w.data(), 1, 1e-6f, y, n); });
    is(silu, [&](float* y) { k->silu(x.data(), w.data(), y, n); });
    is(gelu, [&](float* y) { k->gelu_tanh(x.data(), w.data(), y, n); });
    is(weights, [&](float* y) { k->weights(x.data(), 2.0f, 0.7f, y, n); });
    is(each([&](int i) { return x[i] * 3.7f; }), [&](float* y) { k->scale(x.data(), 3.7f, y, n); });
    is(each([&](int i) { return x[i] + w[i]; }), [&](float* y) {
      std::copy(x.begin(), x.end(), y);
      k->add(y, w.data(), n);
    });
    for (const float cap : {0.3f, 50.0f}) {
      std::vector<float> quotient = each([&](int i) { return x[i] / cap; }), capped(n);
      kPortableKernels.tanh(quotient.data(), capped.data(), n);
      for (float& c : capped) c *= cap;
      is(capped, [&](float* y) {
        std::copy(x.begin(), x.end(), y);
        k->softcap(y, cap, n);
      });
    }
    const int half = n / 2;
    std::vector<float> rotated = x;
    k->rope(rotated.data(), w.data(), norm.data(), half);
    for (int i = 0; i < half; ++i) {
      CHECK(same(rotated[i], x[i] * w[i] - x[half + i] * norm[i]));
      CHECK(same(rotated[half + i], x[half + i] * w[i] + x[i] * norm[i]));
    }
  }
}

}  // namespace

TEST_CASE("operations on rows equal their definition on every length and instruction set") {
  MESSAGE("instruction sets: " << isa_names());
  const FlushDenormals guard;
  Random random{3};
  for (int n = 1; n < 70; ++n) check_length(random, n);
  for (const int n : {576, 2048, 3071, 3072}) check_length(random, n);
}

TEST_CASE("the largest number and the weights leave out what is not finite") {
  for (const Kernels* kernels : usable_kernels()) {
    for (const int n : {1, 5, 16, 40}) {
      std::vector<float> x(n, NAN), y(n);
      x[n / 2] = INFINITY;
      CHECK(kernels->largest(x.data(), n) == -INFINITY);
      x[n - 1] = -3;
      CHECK(kernels->largest(x.data(), n) == -3);
      kernels->weights(x.data(), -3, 1, y.data(), n);
      for (int i = 0; i < n; ++i) CHECK(y[i] == (i == n - 1 ? 1.0f : 0.0f));
    }
  }
}

TEST_CASE("a bias is added to every row, and so it is by a backend that leaves it to add()") {
  constexpr int64_t kRows = 70, kCols = 1003, kStride = 1010;  // worth several threads
  Random random{8};
  const std::vector<float> x = random.normals(kRows * kStride);
  std::vector<float> bias = random.normals(kCols);
  for (const CpuIsa isa : available_isas()) {
    const auto ops = make_cpu_ops({.isa = isa, .num_threads = 3});
    std::vector<float> ours = x, plain = x;
    const auto rows_of = [&](std::vector<float>& data) {
      return Tensor{data.data(), DType::kF32, kRows, kCols, kStride};
    };
    ops->arithmetic().add_bias(rows_of(ours), view(bias, 1, kCols));
    ops->arithmetic().Arithmetic::add_bias(rows_of(plain), view(bias, 1, kCols));
    CHECK(count_differences(ours, plain) == 0);
    for (int64_t i = 0; i < kRows * kStride; ++i) {
      const bool is_padding = i % kStride >= kCols;
      REQUIRE(ours[i] == (is_padding ? x[i] : x[i] + bias[i % kStride]));
    }
  }
}

TEST_CASE("norm, rotation and writing in one pass equal the three separate operations") {
  Random random{11};
  for (int round = 0; round < 40; ++round) {
    const int dim = 2 * random.between(1, 40), kv_heads = random.between(1, 3);
    const int heads = kv_heads * random.between(1, 3), rows = random.between(1, 300);
    constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kI8};
    const DType type = kTypes[random.below(4)];
    const bool normed = random.below(2) == 0;
    const auto numbers = [&](int64_t n) { return random.normals(static_cast<size_t>(n)); };
    const std::vector<float> qs = numbers(rows * heads * dim), ks = numbers(rows * kv_heads * dim);
    const std::vector<float> vs = numbers(rows * kv_heads * dim);
    const std::vector<float> q_table = numbers(rows * dim), k_table = numbers(rows * dim);
    const std::vector<float> q_norm = numbers(dim), k_norm = numbers(dim);
    const int num_threads = random.between(1, 3);

    const auto run = [&](bool in_one_pass) {
      const auto ops = make_cpu_ops({.isa = available_isas().back(), .num_threads = num_threads});
      const auto tensor = [&](const std::vector<float>& values, int64_t height) {
        const int64_t cols = std::ssize(values) / height;
        const Tensor x = ops->steps().scratch(DType::kF32, height, cols);
        std::copy(values.begin(), values.end(), x.row<float>(0));
        return x;
      };
      const KvLayer cache = ops->memory().allocate_kv(type, kv_heads, dim, 2 * rows);
      const Tensor slots = ops->steps().scratch(DType::kI32, rows, 1);
      for (int i = 0; i < rows; ++i) *slots.row<int32_t>(i) = 2 * rows - 1 - i;
      HeadNorms norms;
      if (normed) norms = {tensor(q_norm, 1), tensor(k_norm, 1), 1.0f, 1e-6f};
      const Tensor q = tensor(qs, rows), k = tensor(ks, rows), v = tensor(vs, rows);
      const RopeTables tables = {tensor(q_table, rows), tensor(k_table, rows)};
      if (in_one_pass) {
        ops->arithmetic().rotate_and_write_kv(q, k, v, norms, tables, slots, cache);
      } else {
        ops->arithmetic().Arithmetic::rotate_and_write_kv(q, k, v, norms, tables, slots, cache);
      }
      std::string bytes;
      for (const Tensor& x : {q, cache.k, cache.v, cache.k_scale, cache.v_scale}) {
        if (x.empty()) continue;
        bytes.append(static_cast<const char*>(x.data), static_cast<size_t>(x.bytes()));
      }
      return bytes;
    };
    REQUIRE(run(true) == run(false));
  }
}

TEST_CASE("a row becomes int8 and float16 as the definition says, on every instruction set") {
  const FlushDenormals guard;
  Random random{12};
  for (int round = 0; round < 3000; ++round) {
    const int n = random.between(1, 70), kind = random.below(10);
    const float size = std::ldexp(1.0f + random.unit(), random.between(-140, 126));
    std::vector<float> x = random.normals(n, kind < 5 ? 1.0f : size / 4);
    for (float& number : x) {
      if (kind == 1) number = number < 0 ? -size : size;
      if (kind == 2) number = 0;
      // Ties: halves of 127ths, and odd multiples of half a unit of float16's last place.
      if (kind == 3) number = static_cast<float>(random.between(-254, 254)) / 2;
      if (kind == 4) number = (1 + static_cast<float>(random.below(2048)) / 2048) * 1.5f;
    }
    if (kind == 3) x[0] = 127;
    if (kind == 9) {
      const float bad[] = {NAN, INFINITY, -INFINITY};
      x[random.below(n)] = bad[random.below(3)];
    }
    const StoredRows eight = store_rows(x, n, DType::kI8), half = store_rows(x, n, DType::kF16);
    for (const Kernels* kernels : usable_kernels()) {
      INFO(kernels->name << ", length " << n << ", kind " << kind);
      std::vector<int8_t> y(n + 1, 77);
      CHECK(same(kernels->to_int8(x.data(), y.data(), n), eight.scales[0]));
      std::vector<f16> z(n + 1, f16{77});
      kernels->to_f16(x.data(), z.data(), n);
      CHECK(y[n] == 77);
      CHECK(z[n].bits == 77);
      int wrong = 0;
      for (int i = 0; i < n; ++i) {
        wrong += y[i] != static_cast<int>(eight.numbers[i]);
        wrong += !same(from_f16(z[i].bits), half.numbers[i]);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("a cache takes the bytes that are predicted, in int8 about half of 16 bits") {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
    for (const int dim : {1, 6, 64, 80, 96, 128}) {
      for (const int positions : {1, 255, 1600}) {
        constexpr int kHeads = 3, kLayers = 2;
        const auto ops = make_cpu_ops({.isa = available_isas().back()});
        const int64_t before = ops->memory().held_bytes();
        ops->memory().reserve_kv(kLayers * ops->memory().kv_bytes(type, kHeads, dim, positions));
        const int64_t reserved = ops->memory().held_bytes() - before;
        CHECK(reserved == kLayers * ops->memory().kv_bytes(type, kHeads, dim, positions));
        int64_t used = 0;
        for (int i = 0; i < kLayers; ++i) {
          const KvLayer layer = ops->memory().allocate_kv(type, kHeads, dim, positions);
          for (const Tensor& part : {layer.k, layer.v, layer.k_scale, layer.v_scale}) {
            used += part.bytes();
          }
          // What the plan counts is there, and little more.
          const int64_t planned =
              positions * ops->memory().kv_bytes_per_position(type, kHeads, dim);
          const int64_t rounded = ops->memory().kv_bytes(type, kHeads, dim, positions);
          CHECK(rounded >= planned);
          const int64_t span = 256 * ops->memory().kv_bytes_per_position(type, kHeads, dim);
          CHECK(rounded < planned + span + 4 * 4096);
        }
        CHECK(ops->memory().held_bytes() - before == reserved);  // all of it was in the reserve
        CHECK(used <= reserved);
      }
      if (dim < 64) continue;
      const auto ops = make_cpu_ops({.isa = available_isas().back()});
      const double share =
          static_cast<double>(ops->memory().kv_bytes_per_position(DType::kI8, 3, dim)) /
          static_cast<double>(ops->memory().kv_bytes_per_position(DType::kBF16, 3, dim));
      CHECK(share > 0.51);
      CHECK(share < 0.54);
    }
  }
}
