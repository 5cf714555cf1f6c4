#pragma once

#include <cstdint>

namespace pagedinfer {

// Bytes of the packed input (rows, k) of a product, enough for each of the ProductKernels.
inline int64_t packed_bytes(int64_t num_rows, int64_t k) {
  return 4 * ((num_rows + 15) / 16 * 16) * ((k + 255) / 256 * 256);
}

}  // namespace pagedinfer
