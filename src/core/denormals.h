#pragma once

#include <xmmintrin.h>

namespace pagedinfer {

// While an object lives, denormal operands and results are zero on this thread (DAZ and FTZ).
class FlushDenormals {
 public:
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushDenormals() { _mm_setcsr(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  const unsigned before_;
};

}  // namespace pagedinfer
