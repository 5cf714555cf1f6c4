#pragma once

#include <cmath>

namespace pagedinfer {

// Logarithm and exponential in double. They use additions, multiplications and divisions only, so
// that the result has the same bits on every processor; libm chooses its code by processor and may
// differ in the last bit. Results that are rounded to float are within 0.500001 ulp.
// docs/numerics.md has the formulas.

// The natural logarithm. REQUIRES: x is positive and finite.
inline double log_double(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // in [0.5, 1)
  if (mantissa < 0.70710678118654752) {        // sqrt(1/2)
    mantissa *= 2.0;
    --exponent;
  }
  const double s = (mantissa - 1.0) / (mantissa + 1.0);  // log m = 2 artanh s, |s| < 0.172
  double sum = 0.0;
  for (int k = 25; k >= 1; k -= 2) sum = sum * (s * s) + 1.0 / k;
  return 2.0 * s * sum + exponent * 0.69314718055994530942;
}

// e^x. REQUIRES: the result is a normal number.
inline double exp_double(double x) {
  const double exponent = std::floor(x / 0.69314718055994530942 + 0.5);
  const double r =  // ln 2 in two parts; the exponent times the first is exact
      (x - exponent * 6.93147180369123816490e-01) - exponent * 1.90821492927058770002e-10;
  double sum = 1.0;
  for (int k = 17; k >= 1; --k) sum = sum * (r / k) + 1.0;
  return std::ldexp(sum, static_cast<int>(exponent));
}

}  // namespace pagedinfer
