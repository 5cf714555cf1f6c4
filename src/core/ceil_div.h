#pragma once

#include <type_traits>

namespace pagedinfer {

// a / b, rounded up. REQUIRES: a >= 0, b > 0.
template <class A, class B>
constexpr std::common_type_t<A, B> ceil_div(A a, B b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace pagedinfer
