#pragma once

#include "core/tensor.h"
#include "ops/cuda/staging.h"

namespace pagedinfer {

// Copies rows of a host tensor to the device as `dtype`, without gaps, through `staging`: while
// the device takes one piece, threads fill the next. All of it is queued when this returns, and
// `host` is free.
void upload_rows(const Tensor& host, DType dtype, char* to, Staging& staging, cudaStream_t stream);

}  // namespace pagedinfer
