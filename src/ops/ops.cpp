#include "ops/ops.h"

namespace pagedinfer {

void Ops::add_bias(Tensor x, Tensor bias) {
  for (int64_t i = 0; i < x.rows; ++i) {
    char* const row = static_cast<char*>(x.data) + i * x.stride * size_of(x.dtype);
    add({row, x.dtype, 1, x.cols, x.stride}, bias);
  }
}

}  // namespace pagedinfer
