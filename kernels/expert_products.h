// The products of experts. Plain, and slow: tiles in shared memory, without tensor cores. The
// counts of rows are read on the device, so that a launch does not depend on them.
#pragma once

#include <span>

#include "kernels/types.h"

namespace pagedinfer::kernels {

// What is between the products gate and up and the product down, as ops/activation.h defines it.
enum class ExpertGate : uint8_t { kSilu, kGeluTanh, kClampedSwish };

// The weights of an expert: matrices without gaps between their rows, of the type of the
// activations, or in int8 (int8_panels.h). Biases have the type of the activations.
struct ExpertMatrices {
  const void *gate = nullptr, *up = nullptr;  // (width, cols)
  const void* down = nullptr;                 // (cols, width)
  const void *gate_bias = nullptr, *up_bias = nullptr,
             *down_bias = nullptr;  // of the outputs, or nullptr
  int width = 0;
};

// Choice c of row r has the number r * choices + c. Sums of products in the type of the activations
// are chains of fma over the columns, ascending; those in int8 have the CPU backend's bits. A row's
// bits do not depend on the other rows.
struct ExpertProductsArgs {
  Type type;     // of x, gated and out
  bool is_int8;  // the weights
  Matrix x;      // (num_rows, cols)
  // In int8 the input of the products in place of x, and then of `gated` (int8_panels.h).
  const void* panels = nullptr;
  int64_t num_rows, cols;
  int choices, max_width;  // of all experts
  const int32_t* numbers;  // (num_rows * choices), by expert
  const int32_t* starts;   // (experts + 1)
  const float* weights;    // (num_rows, choices)
  ExpertGate gate;
  float alpha = 1.0f, limit = 0.0f;  // of kClampedSwish
  void* gated;     // (num_rows * choices, max_width) of the type; by expert; zeros after `width`
  float* outputs;  // (num_rows * choices, cols), by number
  Matrix out;      // (num_rows, cols)
};

// gated = activation(x gate^T + gate_bias) * (x up^T + up_bias) for all rows of all experts.
void launch_expert_gates(const ExpertProductsArgs& args, std::span<const ExpertMatrices> experts,
                         cudaStream_t stream);
// outputs = gated down^T + down_bias
void launch_expert_outputs(const ExpertProductsArgs& args, std::span<const ExpertMatrices> experts,
                           cudaStream_t stream);
// out = the sum over a row's choices of weight * output, by one chain of fma.
void launch_expert_sum(const ExpertProductsArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
