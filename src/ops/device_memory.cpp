#include "ops/device_memory.h"

namespace pagedinfer {

int64_t DeviceMemory::uploaded_bytes(Tensor host, DType dtype) const {
  const int64_t copied = dtype == host.dtype ? 0 : host.rows * host.cols * size_of(dtype);
  return host.bytes() + copied;
}

}  // namespace pagedinfer
