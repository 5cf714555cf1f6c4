// A block of experts: of many gated products a row goes through a few, which a router chooses.
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"

namespace pagedinfer {

// Chooses `per_row` experts for a row: those of the largest logits x * weight^T + bias, of equal
// ones those of the lower index. Their weights are a softmax over all logits or, normalized, over
// the chosen ones.
struct Router {
  Tensor weight;     // (experts, x.cols) float32
  Tensor bias = {};  // (1, experts) float32, or empty
  int per_row = 0;
  bool normalizes_chosen = false;
  // A further expert, after the others, that every row has. Its weight is sigmoid(x * gate^T), or 1
  // without a gate.
  bool has_shared = false;
  Tensor shared_gate = {};  // (1, x.cols) float32, or empty

  int choices() const { return per_row + (has_shared ? 1 : 0); }
  int experts() const { return static_cast<int>(weight.rows) + (has_shared ? 1 : 0); }
};

// The experts of each row, ascending, and their weights: (rows, Router::choices()).
struct ExpertChoice {
  Tensor experts;  // int32
  Tensor weights;  // float32
};

// The same by expert. Choice c of row r has the number r * choices + c; an expert has numbers
// [starts[i], starts[i + 1]) of the list, ascending.
struct ExpertGroups {
  Tensor numbers;  // (1, rows * choices) int32
  Tensor starts;   // (1, experts + 1) int32
};

// The weights of one expert.
struct Expert {
  Tensor gate = {}, up = {};  // (width, x.cols)
  Tensor down = {};           // (x.cols, width)
  // (1, rows of the matrix), or empty
  Tensor gate_bias = {}, up_bias = {}, down_bias = {};
};

// Fills row i of `choice` from the logits of that row. They and the logit of the shared expert's
// gate are complete, biases included.
void choose_experts(std::span<const float> logits, const Router& router, float shared_logit,
                    int64_t i, const ExpertChoice& choice);

}  // namespace pagedinfer
