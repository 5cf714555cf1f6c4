// The arithmetic that the GPU's sampling shares with the CPU's.
#include <doctest/doctest.h>

#include "kernels/exact_math.h"
#include "ops_support.h"

using namespace pagedinfer;
using namespace pagedinfer::kernels;

TEST_CASE("the GPU's exp has the CPU backend's bits") {
  const FlushDenormals guard;
  Random random{1};
  int64_t different = 0;
  const auto check = [&](float x) {
    float expected;
    kPortableKernels.exp(&x, &expected, 1);
    different += !same(exact_exp(x), expected);
  };
  for (int i = 0; i < 300000; ++i) check(from_bits(static_cast<uint32_t>(random.bits())));
  for (int i = 0; i < 300000; ++i) check(-100 * random.unit());
  for (const float x : {0.0f, -0.0f, INFINITY, -INFINITY, NAN, -87.33654f, -87.33655f, 88.72283f}) {
    check(x);
  }
  CHECK(different == 0);
}

TEST_CASE("the GPU's table of rotations has the CPU backend's bits") {
  Random random{2};
  int64_t different = 0;
  for (int i = 0; i < 20000; ++i) {
    const int position = random.below(1 << 20);
    const float inv_freq = random.below(8) ? random.unit() : 1.0f;
    float cos, sin;
    kPortableKernels.rope_table(position, &inv_freq, 1, &cos, &sin);
    const CosSin value = cos_sin(mul_rn(static_cast<float>(position), inv_freq));
    different += !same(value.cos, cos) + !same(value.sin, sin);
  }
  CHECK(different == 0);
}
