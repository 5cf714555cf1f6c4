#pragma once

#include "core/tensor.h"
#include "ops/cuda/staging.h"
#include "ops/row_source.h"

namespace pagedinfer {

// Copies a host tensor to the device, converted to `dtype` and without gaps between rows. While the
// device reads one piece from `staging`, threads fill the next. When this returns, all copies are
// queued and `host` is no longer read.
void upload_rows(const Tensor& host, DType dtype, char* to, Staging& staging, cudaStream_t stream);

// The same of a matrix that is computed. REQUIRES: `staging` has room for a row.
void upload_rows(const RowSource& source, DType dtype, char* to, Staging& staging,
                 cudaStream_t stream);

// As upload_rows(), as the weights of products in int8 (kernels/int8_panels.h): each row becomes
// int8 as a whole. REQUIRES: `staging` has room for a panel.
void upload_int8(const RowSource& source, char* to, Staging& staging, cudaStream_t stream);

}  // namespace pagedinfer
