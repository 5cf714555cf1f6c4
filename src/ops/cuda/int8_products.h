#pragma once

#include <cstdint>

#include "ops/arithmetic.h"
#include "ops/cuda/cuda_state.h"

namespace pagedinfer {

// Products with weights in int8 on a GPU, and the buffer that their input is in.
class Int8Products {
 public:
  // REQUIRES: the state outlives it.
  explicit Int8Products(const CudaState& state) : state_(state) {}

  // The buffer of all steps.
  void set_input(char* input, int64_t bytes) { input_ = input, bytes_ = bytes; }
  char* input() const { return input_; }

  // Makes x the input of the products that follow.
  void quantize(Tensor x);
  // REQUIRES: x is the input.
  void multiply(Tensor x, const Product& product);

 private:
  const CudaState& state_;
  char* input_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace pagedinfer
