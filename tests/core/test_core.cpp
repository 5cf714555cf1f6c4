#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "core/double_math.h"
#include "core/tensor.h"

using namespace pagedinfer;

TEST_CASE("a tensor's rows are a stride apart") {
  float values[6] = {0, 1, 2, 3, 4, 5};
  const Tensor view = {values + 1, DType::kF32, 2, 2, 3};
  CHECK(view.row<float>(1)[0] == 4.0f);
  CHECK(view.bytes() == 16);
}

TEST_CASE("log and exp in double leave a float's rounding as it is") {
  std::mt19937_64 random(1);
  const auto between = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
  };
  double worst = 0;  // relative error
  const auto check = [&](double found, long double exact) {
    worst = std::max(worst, static_cast<double>(std::abs((found - exact) / exact)));
  };
  for (int i = 0; i < 200'000; ++i) {
    const double x = i % 2 ? std::ldexp(between(1, 2), static_cast<int>(random() % 2000) - 1000)
                           : between(0.5, 2);
    if (x != 1) check(log_double(x), std::log(static_cast<long double>(x)));
    const double y = between(-700, 700);
    check(exp_double(y), std::exp(static_cast<long double>(y)));
  }
  CHECK(log_double(1) == 0);
  CHECK(exp_double(0) == 1);
  CHECK(worst < 1e-14);  // a float has 6e-8
}
