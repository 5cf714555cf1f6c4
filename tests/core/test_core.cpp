#include <doctest/doctest.h>

#include "core/tensor.h"

using namespace pagedinfer;

TEST_CASE("a tensor's rows are a stride apart") {
  float values[6] = {0, 1, 2, 3, 4, 5};
  const Tensor view = {values + 1, DType::kF32, 2, 2, 3};
  CHECK(view.row<float>(1)[0] == 4.0f);
  CHECK(view.bytes() == 16);
}
