// The choice of a row's experts, and rows by expert, as docs/numerics.md defines them.
#pragma once

#include "kernels/types.h"

namespace pagedinfer::kernels {

constexpr int kMaxExperts = 2048;

// Chooses the experts of each row. Of equal rows x the results have the CPU backend's bits.
// REQUIRES: per_row <= experts <= kMaxExperts.
struct RouteArgs {
  Type type;
  Matrix x;                            // (num_rows, cols)
  Matrix router;                       // (experts, cols) float32
  const float* bias = nullptr;         // (experts), or nullptr
  const float* shared_gate = nullptr;  // (cols), or nullptr
  int64_t num_rows, cols;
  int experts, per_row;
  bool normalizes_chosen;  // else the softmax is over all experts
  bool has_shared;         // a further expert, after the others, that every row has
  int32_t* chosen;         // (num_rows, per_row + has_shared), ascending
  float* weights;          // of the same shape
};
void launch_route(const RouteArgs& args, cudaStream_t stream);

// Sorts the choices by expert: the numbers [starts[e], starts[e + 1]) are those of expert e,
// ascending.
struct GroupByExpertArgs {
  const int32_t* chosen;  // (num_choices)
  int32_t* numbers;       // (num_choices)
  int32_t* starts;        // (experts + 1)
  int num_choices, experts;
};
void launch_group_by_expert(const GroupByExpertArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
