// exp, tanh, fma, conversions and the rope table: equal bits in every build, errors in ulp.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "ops/cpu/vector_math.h"
#include "tests/support/ops_support.h"

using namespace pagedinfer;

namespace {

// Distance from the exact value in ulp of the result's binade.
double error_in_ulp(float y, long double exact) {
  int exponent;
  std::frexp(static_cast<double>(exact), &exponent);
  return static_cast<double>(
      std::abs((y - exact) / std::ldexp(1.0L, std::max(exponent, -125) - 24)));
}

// A random operand. The kinds are: any bits, neighbouring exponents, few bits (so that ties occur),
// small, near the smallest number, near the largest.
float fma_operand(Random& random, int kind) {
  constexpr uint32_t kFirstExponent[] = {0, 120, 100, 60, 0, 188, 247};
  constexpr uint32_t kExponents[] = {256, 16, 56, 8, 3, 6, 9};
  constexpr uint32_t kMantissa[] = {0x7fffff, 0x7fffff, 0x7f0000, 0x7fffff,
                                    0x7ff800, 0x7fffff, 0x7fffff};
  const uint32_t sign = random.below(2) ? 0x80000000 : 0;
  const uint32_t exponent = kFirstExponent[kind] + random.bits() % kExponents[kind];
  return from_bits(sign | exponent << 23 | (random.bits() & kMantissa[kind]));
}

struct Function {
  const char* name;
  void (*const Kernels::*row)(const float*, float*, int64_t);
  long double (*exact)(long double);
  float first, last;  // |x| for which the result is neither constant nor x
};

}  // namespace

TEST_CASE("the software fma rounds as the hardware does, whatever the denormal mode") {
  constexpr int kBatch = 4096;
  std::vector<float> a(kBatch), b(kBatch), c(kBatch), y(kBatch);
  Random random{1};
  int64_t inexact = 0, tiny = 0;
  for (const unsigned mode : {0x8040u, 0x8000u, 0x40u, 0u}) {  // FTZ and DAZ
    for (int batch = 0; batch < 100; ++batch) {
      for (int i = 0; i < kBatch; ++i) {
        const int kind = random.below(8);
        const int factor_kind = kind == 6 ? 3 : kind == 7 ? 5 : kind;
        const int term_kind = kind == 3 || kind == 6 ? 4 : kind == 5 || kind == 7 ? 6 : kind;
        a[i] = fma_operand(random, factor_kind);
        b[i] = fma_operand(random, factor_kind);
        c[i] = fma_operand(random, term_kind);
        const auto nearly = 1 + static_cast<float>(random.below(3)) * 0x1p-23f;
        if (kind == 1 && i % 2) c[i] = -a[i] * b[i] * nearly;
        if (kind == 6) c[i] = -a[i] * b[i];
      }
      const unsigned before = _mm_getcsr();
      _mm_setcsr(before | mode);
      int64_t wrong = 0;
      for (const Kernels* kernels : usable_kernels()) {
        kernels->fma(a.data(), b.data(), c.data(), y.data(), kBatch);
        for (int i = 0; i < kBatch; ++i) {
          const float right = std::fma(a[i], b[i], c[i]);
          wrong += !same(right, y[i]);
          inexact += static_cast<double>(a[i]) * b[i] + c[i] != right;
          tiny += (bits_of(right) & 0x7fffffff) <= 0x800000;
        }
      }
      _mm_setcsr(before);
      CHECK(wrong == 0);
    }
  }
  CHECK(inexact > 100000);
  CHECK(tiny > 10000);
}

TEST_CASE("exp and tanh are within 2 ulp and equal in every build") {
  constexpr int kBatch = 4096;
  const FlushDenormals guard;
  Random random{2};
  const Function functions[] = {
      {"exp", &Kernels::exp, [](long double x) { return std::exp(x); }, 0x1p-26f, 89.0f},
      {"tanh", &Kernels::tanh, [](long double x) { return std::tanh(x); }, 0x1p-14f, 9.1f}};
  for (const Function& f : functions) {
    double worst = 0;
    std::vector<float> x(kBatch), right(kBatch), y(kBatch);
    for (int batch = 0; batch < 256; ++batch) {
      for (int i = 0; i < kBatch; ++i) {  // half of them where the result varies
        x[i] = i % 2 ? from_bits(static_cast<uint32_t>(random.bits()))
                     : (random.unit() * 2 - 1) * f.last;
      }
      (kPortableKernels.*f.row)(x.data(), right.data(), kBatch);
      for (const Kernels* kernels : usable_kernels()) {
        (kernels->*f.row)(x.data(), y.data(), kBatch);
        CHECK(count_differences(y, right) == 0);
      }
      for (int i = 0; i < kBatch; ++i) {
        if (!(std::abs(x[i]) >= f.first && std::abs(x[i]) <= f.last)) continue;
        const long double exact = f.exact(x[i]);
        if (std::abs(exact) < 0x1p-126L || std::abs(exact) > 0x1.fffffep127L) continue;
        worst = std::max(worst, error_in_ulp(right[i], exact));
      }
    }
    MESSAGE(std::string(f.name) << ": at most " << worst << " ulp");
    CHECK(worst < 2);
    CHECK(worst > 0.5);
  }
}

TEST_CASE("exp and tanh of special values") {
  const FlushDenormals guard;
  constexpr float kInf = INFINITY;
  const float x[] = {0,          -0.0f,      kInf,      -kInf,     NAN,    1e-40f,
                     -87.33654f, -87.33655f, 88.72283f, 88.72284f, -1e30f, 1e30f};
  const float e[] = {1, 1, kInf, 0, NAN, 1, 0x1.00004cp-126f, 0, 0x1.ffff08p127f, kInf, 0, kInf};
  const float t[] = {0, -0.0f, 1, -1, NAN, 0, -1, -1, 1, 1, -1, 1};
  for (const Kernels* kernels : usable_kernels()) {
    for (int i = 0; i < 12; ++i) {
      float y;
      kernels->exp(&x[i], &y, 1);
      CHECK_MESSAGE(same(y, e[i]), "exp(" << x[i] << ") = " << y);
      kernels->tanh(&x[i], &y, 1);
      CHECK_MESSAGE(same(y, t[i]), "tanh(" << x[i] << ") = " << y);
    }
  }
}

TEST_CASE("float32 becomes the nearest bfloat16, ties to even, and every float16 its value") {
  const FlushDenormals guard;
  Random random{3};
  constexpr int kCount = 1 << 20;
  std::vector<float> x(kCount);
  for (int i = 0; i < kCount; ++i) {
    const uint32_t bits = static_cast<uint32_t>(random.bits());
    x[i] = from_bits(i % 4 ? bits : (bits & 0xffff0000) | 0x8000);  // a tie
  }
  std::vector<bf16> rounded(kCount);
  std::vector<f16> halves(1 << 16);
  for (size_t i = 0; i < halves.size(); ++i) halves[i].bits = static_cast<uint16_t>(i);
  std::vector<float> wide(halves.size());
  for (const Kernels* kernels : usable_kernels()) {
    kernels->to_bf16(x.data(), rounded.data(), kCount);
    int64_t wrong = 0;
    for (int i = 0; i < kCount; ++i) {
      const uint32_t low = bits_of(x[i]) & 0xffff0000, rest = bits_of(x[i]) & 0xffff;
      const bool up = rest > 0x8000 || (rest == 0x8000 && (low & 0x10000));
      const uint32_t right = x[i] != x[i] ? 0x7fc0 : (low + (up ? 0x10000 : 0)) >> 16;
      wrong += rounded[i].bits != right;
    }
    kernels->from_f16(halves.data(), wide.data(), static_cast<int64_t>(halves.size()));
    for (size_t i = 0; i < halves.size(); ++i) {
      const uint16_t bits = halves[i].bits;
      const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
      float right = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                  : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
      if (exponent == 31) right = mantissa ? NAN : INFINITY;
      wrong += !same(wide[i], bits & 0x8000 ? -right : right);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("the rope table is rounded correctly and equal in every build") {
  const FlushDenormals guard;
  const auto usable = usable_kernels();
  Random random{4};
  double worst = 0;
  int64_t different = 0;
  const auto check = [&](const auto& function, long double exact) {
    const float y = function(kPortableKernels);
    for (const Kernels* kernels : usable) different += !same(function(*kernels), y);
    worst = std::max(worst, error_in_ulp(y, exact));
  };
  for (int i = 0; i < 200000; ++i) {
    const int position = random.below(1 << 20);
    const float frequency = i % 4 ? std::pow(1e6f, -random.unit()) : 1;
    const long double angle = static_cast<float>(position) * frequency;
    const auto table = [&](const Kernels& k, int which) {
      float value[2];
      k.rope_table(position, &frequency, 1, 1.0f, &value[0], &value[1]);
      return value[which];
    };
    check([&](auto& k) { return table(k, 0); }, std::cos(angle));
    check([&](auto& k) { return table(k, 1); }, std::sin(angle));
  }
  CHECK(different == 0);
  CHECK(worst < 0.500001);
}

TEST_CASE("p is rounded as bfloat16 is, and exp2 is as exact as the definition says") {
  const FlushDenormals guard;
  float x[16], y[16];
  int wrong = 0;
  for (const uint32_t exponent : {1u, 64u, 126u}) {
    for (uint32_t mantissa = 0; mantissa < 1u << 23; mantissa += 16) {
      for (uint32_t i = 0; i < 16; ++i) x[i] = from_bits((exponent << 23) + mantissa + i);
      bf16 right[16];
      kPortableKernels.to_bf16(x, right, 16);
      store(y, round_to_bf16(load(x)));
      for (int i = 0; i < 16; ++i) wrong += bits_of(y[i]) != uint32_t{right[i].bits} << 16;
    }
  }
  CHECK(wrong == 0);
  double worst = 0;
  for (int i = 0; i < 126 * 1000; i += 16) {
    for (int j = 0; j < 16; ++j) x[j] = -0.001f * static_cast<float>(i + j);
    store(y, exp2_of_negative(load(x)));
    for (int j = 0; j < 16; ++j) {
      if (x[j] < -126) continue;
      worst = std::max(worst, std::abs(y[j] / std::exp2(static_cast<double>(x[j])) - 1));
    }
  }
  CHECK(worst < 1.1e-4);
  x[0] = -126.5f, x[1] = NAN, x[2] = 0;
  store(y, exp2_of_negative(load(x)));
  CHECK(y[0] == 0);
  CHECK(std::isnan(y[1]));
  CHECK(y[2] == 1);
}
