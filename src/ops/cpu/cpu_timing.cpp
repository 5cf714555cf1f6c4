#include "ops/cpu/cpu_timing.h"

#include <cstring>

#include "core/check.h"

namespace pagedinfer {

void CpuTiming::copy(Tensor from, Tensor to) {
  CHECK(from.stride == from.cols && to.stride == to.cols && from.bytes() == to.bytes());
  const int64_t row_bytes = from.cols * size_of(from.dtype);
  state_.for_rows(from.rows, from.rows * from.cols, [&](int64_t i) {
    std::memcpy(static_cast<char*>(to.data) + i * row_bytes,
                static_cast<const char*>(from.data) + i * row_bytes,
                static_cast<size_t>(row_bytes));
  });
}

}  // namespace pagedinfer
