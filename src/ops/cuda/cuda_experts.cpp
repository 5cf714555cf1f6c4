#include "ops/cuda/cuda_experts.h"

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "kernels/expert_choice.h"
#include "kernels/expert_products.h"
#include "ops/cuda/device_arena.h"
#include "ops/cuda/kernel_arguments.h"

namespace pagedinfer {
namespace {

constexpr const char* kWhat = "experts";

const void* bias_of(const Tensor& bias, const Tensor& matrix, DType type) {
  CHECK(bias.empty() || (bias.cols == matrix.rows && bias.dtype == type));
  return bias.data;
}

kernels::ExpertGate gate_of(Activation activation) {
  switch (activation) {
    case Activation::kSilu: return kernels::ExpertGate::kSilu;
    case Activation::kGeluTanh: return kernels::ExpertGate::kGeluTanh;
    case Activation::kClampedSwish: return kernels::ExpertGate::kClampedSwish;
  }
  CHECK(false);
}

}  // namespace

void CudaExperts::reserve(const StepMemory& planned) {
  constexpr int64_t kAligned = DeviceArena::kStepAlignment;
  gate_bytes_ = planned.expert_gates;
  output_bytes_ = planned.expert_outputs;
  gates_ = state_.step_piece.take(gate_bytes_, kAligned, kWhat);
  outputs_ = reinterpret_cast<float*>(state_.step_piece.take(output_bytes_, kAligned, kWhat));
}

void CudaExperts::route(Tensor x, const Router& router, const ExpertChoice& choice) {
  CHECK(router.weight.cols == x.cols && router.choices() == choice.experts.cols);
  CHECK(choice.experts.stride == router.choices() && choice.weights.stride == router.choices());
  CHECK(choice.experts.dtype == DType::kI32 && router.weight.dtype == DType::kF32);
  kernels::launch_route(
      {.type = type_of(x.dtype),
       .x = matrix(x),
       .router = matrix(router.weight),
       .bias = router.bias.empty() ? nullptr : floats(router.bias),
       .shared_gate = router.shared_gate.empty() ? nullptr : floats(router.shared_gate),
       .num_rows = x.rows,
       .cols = x.cols,
       .experts = static_cast<int>(router.weight.rows),
       .per_row = router.per_row,
       .normalizes_chosen = router.normalizes_chosen,
       .has_shared = router.has_shared,
       .chosen = choice.experts.row<int32_t>(0),
       .weights = const_cast<float*>(floats(choice.weights))},
      state_.stream.get());
  check_launch("a choice of experts");
}

void CudaExperts::group(const ExpertChoice& choice, const ExpertGroups& groups) {
  CHECK(groups.numbers.cols == choice.experts.rows * choice.experts.cols);
  kernels::launch_group_by_expert({.chosen = ints(choice.experts),
                                   .numbers = groups.numbers.row<int32_t>(0),
                                   .starts = groups.starts.row<int32_t>(0),
                                   .num_choices = static_cast<int>(groups.numbers.cols),
                                   .experts = static_cast<int>(groups.starts.cols) - 1},
                                  state_.stream.get());
  check_launch("rows by expert");
}

void CudaExperts::multiply(Tensor x, const ExpertChoice& choice, const ExpertGroups& groups,
                           std::span<const Expert> experts, Activation activation,
                           const ClampedSwish& swish, Tensor out) {
  CHECK(same_shape(x, out) && std::ssize(experts) + 1 == groups.starts.cols);
  CHECK(choice.weights.rows == x.rows && choice.weights.stride == choice.weights.cols);
  const DType stored = experts.front().gate.dtype;
  const bool is_int8 = stored == DType::kI8;
  CHECK(is_int8 || stored == x.dtype);
  std::vector<kernels::ExpertMatrices> matrices;
  int64_t width = 0;
  for (const Expert& expert : experts) {
    for (const Tensor* weight : {&expert.gate, &expert.up, &expert.down}) {
      CHECK(weight->dtype == stored && (is_int8 || weight->stride == weight->cols));
    }
    CHECK(expert.gate.cols == x.cols && expert.up.cols == x.cols && expert.down.rows == x.cols);
    CHECK(expert.up.rows == expert.gate.rows && expert.down.cols == expert.gate.rows);
    matrices.push_back({.gate = expert.gate.data,
                        .up = expert.up.data,
                        .down = expert.down.data,
                        .gate_bias = bias_of(expert.gate_bias, expert.gate, x.dtype),
                        .up_bias = bias_of(expert.up_bias, expert.up, x.dtype),
                        .down_bias = bias_of(expert.down_bias, expert.down, x.dtype),
                        .width = static_cast<int>(expert.gate.rows)});
    width = std::max(width, expert.gate.rows);
  }
  const int64_t rows = x.rows * choice.weights.cols;
  const Tensor gated = {gates_, x.dtype, rows, width, width};
  CHECK(gated.bytes() <= gate_bytes_);
  CHECK(rows * x.cols * size_of(DType::kF32) <= output_bytes_);
  const kernels::ExpertProductsArgs args = {.type = type_of(x.dtype),
                                            .is_int8 = is_int8,
                                            .x = matrix(x),
                                            .panels = int8_.input(),
                                            .num_rows = x.rows,
                                            .cols = x.cols,
                                            .choices = static_cast<int>(choice.weights.cols),
                                            .max_width = static_cast<int>(width),
                                            .numbers = ints(groups.numbers),
                                            .starts = ints(groups.starts),
                                            .weights = floats(choice.weights),
                                            .gate = gate_of(activation),
                                            .alpha = swish.alpha,
                                            .limit = swish.limit,
                                            .gated = gated.data,
                                            .outputs = outputs_,
                                            .out = matrix(out)};
  if (is_int8) int8_.quantize(x);
  kernels::launch_expert_gates(args, matrices, state_.stream.get());
  check_launch(kWhat);
  if (is_int8) int8_.quantize(gated);
  kernels::launch_expert_outputs(args, matrices, state_.stream.get());
  kernels::launch_expert_sum(args, state_.stream.get());
  check_launch(kWhat);
}

}  // namespace pagedinfer
