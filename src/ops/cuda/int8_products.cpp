#include "ops/cuda/int8_products.h"

#include "core/check.h"
#include "kernels/int8_panels.h"
#include "kernels/int8_product.h"
#include "kernels/int8_rows.h"
#include "ops/cuda/kernel_arguments.h"

namespace pagedinfer {

void Int8Products::quantize(Tensor x) {
  CHECK(kernels::int8_input_bytes(x.rows, x.cols) <= bytes_);
  kernels::launch_quantize(
      {.type = type_of(x.dtype), .x = matrix(x), .num_rows = x.rows, .cols = x.cols, .out = input_},
      state_.stream.get());
  check_launch("the input of a product in int8");
}

void Int8Products::multiply(Tensor x, const Product& product) {
  const Tensor &weight = product.weight, &out = product.out;
  CHECK(weight.cols == x.cols && out.rows == x.rows && out.cols == weight.rows);
  CHECK(weight.layout == Layout::kPanels);
  kernels::launch_int8_product({.type = type_of(out.dtype),
                                .input = input_,
                                .weights = weight.data,
                                .out = matrix(out),
                                .num_rows = x.rows,
                                .cols = x.cols,
                                .outputs = weight.rows,
                                .multiprocessors = state_.device.multiProcessorCount},
                               state_.stream.get());
  check_launch("a product in int8");
}

}  // namespace pagedinfer
