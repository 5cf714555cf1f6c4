// The rows of int8 of the GPU's cache, against the CPU's.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/float16.h"
#include "kernels/int8.h"
#include "tests/support/ops_support.h"

using namespace pagedinfer;

TEST_CASE("the GPU's rows of int8 have the CPU backend's bits") {
  const FlushDenormals guard;
  Random random{1};
  for (int round = 0; round < 4000; ++round) {
    std::vector<float> x = random.normals(static_cast<size_t>(random.between(1, 150)));
    const float size = std::array{1.0f, 1e-30f, 1e-37f, 1e30f, 0.0f}[random.below(5)];
    for (float& number : x) number *= size;
    const auto one = [&]() -> float& { return x[random.below(static_cast<int>(x.size()))]; };
    if (random.below(3) == 0) one() = from_bits(static_cast<uint32_t>(random.below(0x00900000)));
    if (random.below(8) == 0) one() = std::array{INFINITY, -INFINITY, NAN}[random.below(3)];
    if (random.below(8) == 0) one() = -0.0f;

    std::vector<int8_t> expected(x.size()), found;
    const float expected_scale = kPortableKernels.to_int8(x.data(), expected.data(), std::ssize(x));
    uint32_t largest = 0;
    for (const float number : x) largest = std::max(largest, kernels::magnitude_of(number));
    const float scale = kernels::int8_scale(largest);
    for (const float number : x) found.push_back(kernels::to_int8(number, scale));
    REQUIRE(same(scale, expected_scale));
    REQUIRE(found == expected);
  }
}

TEST_CASE("the GPU widens every int8 exactly") {
  Random random{2};
  for (int first = -128; first < 128; ++first) {
    uint32_t four = static_cast<uint8_t>(first);
    std::vector<int> numbers = {first};
    for (int i = 1; i < 4; ++i) {
      numbers.push_back(random.between(-128, 127));
      four |= uint32_t{static_cast<uint8_t>(numbers.back())} << 8 * i;
    }
    const kernels::Int8Pairs as_bf16 = kernels::int8_as_bf16(four),
                             as_f16 = kernels::int8_as_f16(four);
    for (int i = 0; i < 4; ++i) {
      const auto half = [&](const uint32_t(&words)[2]) {
        return static_cast<uint16_t>(words[i / 2] >> 16 * (i % 2));
      };
      const auto number = static_cast<float>(numbers[static_cast<size_t>(i)]);
      CHECK(from_bf16(half(as_bf16.minuend)) - from_bf16(half(as_bf16.subtrahend)) == number);
      CHECK(from_f16(half(as_f16.minuend)) - from_f16(half(as_f16.subtrahend)) == number);
    }
  }
}
