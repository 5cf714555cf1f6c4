#include "ops/cpu/cpu_gated_matmul.h"

#include <algorithm>

#include "core/check.h"
#include "core/denormals.h"
#include "core/numbers.h"
#include "ops/cpu/apply_gate.h"
#include "ops/cpu/gate_block.h"
#include "ops/cpu/int4_format.h"

namespace pagedinfer {

namespace {

constexpr int kApart = 16;  // numbers between rows, which must not all be in one set of the cache

// What one task computes.
struct BlockTask {
  int rows, columns;
  bool packs;  // false: the columns are fewer than a block's, and the result is stored in rows
};
BlockTask block_task(GateBlock block, int num_threads, int rows, int columns) {
  // Blocks of about the same height: one of few rows would read the weights for little.
  const int down = ceil_div(rows, block.rows), across = ceil_div(columns, block.columns);
  const int height = ceil_div(ceil_div(rows, down), kPackedRows) * kPackedRows;
  constexpr int kPerThread = 4, kMinColumns = 64;
  if (num_threads == 1 || down * across >= num_threads * kPerThread / 2) {
    return {height, block.columns, true};
  }
  const int parts = ceil_div(num_threads * kPerThread, down);
  const int part = ceil_div(ceil_div(columns, parts), kMinColumns) * kMinColumns;
  return {height, std::min(part, block.columns), false};
}

}  // namespace

CpuGatedMatmul::CpuGatedMatmul(CpuState& state, CpuMatmul& matmul)
    : state_(state),
      matmul_(matmul),
      blocks_(new Block[static_cast<size_t>(state.pool.num_threads())]) {}

void CpuGatedMatmul::run(Tensor x, const GatedProducts& products, Tensor next, Tensor& out) {
  const Tensor &gate = products.gate.weight, &up = products.up.weight;
  const int rows = static_cast<int>(x.rows), k = static_cast<int>(x.cols);
  const int columns = static_cast<int>(gate.rows);
  CHECK(gate.cols == k && up.cols == k && up.rows == columns && next.cols == columns);
  if (rows == 0) return;
  const ProductKernels& kernels = product_of(state_.options, up.dtype, up.layout);
  const ProductKernels& next_kernels = product_of(state_.options, next.dtype, next.layout);
  const auto activate = [&](const float* a, const float* b, float* y, int n) {
    apply_gate(state_.kernels, products.activation, products.swish, a, b, y, n);
  };
  out = {gated_.room_for(rows, columns), DType::kF32, rows, columns, columns, Layout::kRows};
  // A gate with an input of its own is computed as a whole, in the place of the result.
  const bool is_whole = !share_input(gate, up);
  const Product whole = {gate, out};
  if (is_whole) matmul_.multiply_packed(x, matmul_.pack_input(x, gate), {&whole, 1});
  const void* const packed = matmul_.pack_input(x, up);

  const DType input = input_type(state_.options, next.dtype);
  const int num_threads = matmul_.threads_for(int64_t{2} * columns * rows * k);
  BlockTask size = block_task(gate_block(state_.options.isa, input), num_threads, rows, columns);
  const int64_t stride = size.columns + kApart;
  CHECK(size.rows * stride <= Block::kSize);
  if (is_whole || column_order(next) != nullptr) size.packs = false;
  if (size.packs) out.dtype = input, out.layout = Layout::kPanels;

  // Threads go through the columns of the same rows, which stay in their caches.
  const int down = ceil_div(rows, size.rows), across = ceil_div(columns, size.columns);
  const auto compute = [&](int task, int worker) {
    const int first_row = task / across * size.rows, first = task % across * size.columns;
    const int last_row = std::min(rows, first_row + size.rows);
    const int last = std::min(columns, first + size.columns);
    Block& block = blocks_[static_cast<size_t>(worker)];
    void* const scratch = matmul_.scratch_of(worker);
    const auto multiply = [&](const Tensor& weight, float* y, const void* after) {
      kernels.multiply({.packed = packed,
                        .num_rows = rows,
                        .k = k,
                        .weights = weight.data,
                        .weight_stride = weight.stride,
                        .y = y - first_row * stride - first,  // of row 0 and output 0
                        .y_stride = stride,
                        .first_row = first_row,
                        .last_row = last_row,
                        .first = first,
                        .last = last,
                        .after = after,
                        .tuning = state_.options.tuning,
                        .scratch = scratch});
    };
    const auto add_bias = [&](const Tensor& bias, float* y) {
      if (!bias.empty()) state_.kernels.add(y, bias.row<float>(0) + first, last - first);
    };
    const int next_task = task + num_threads;
    const bool is_last = down > 1 || next_task >= across;
    if (!is_whole) multiply(gate, block.gate, panel_at(up, first));
    multiply(up, block.up,
             is_last ? nullptr : panel_at(is_whole ? up : gate, next_task * size.columns));
    for (int row = first_row; row < last_row; ++row) {
      const int64_t at = (row - first_row) * stride;
      float* const result = size.packs ? block.gate + at : out.row<float>(row) + first;
      float* const of_gate = is_whole ? result : block.gate + at;
      add_bias(products.gate_bias, of_gate);
      add_bias(products.up_bias, block.up + at);
      activate(of_gate, block.up + at, result, last - first);
    }
    if (!size.packs) return;
    next_kernels.pack(
        {block.gate, stride, rows, columns, first_row, last_row, first, last, out.data});
  };
  if (num_threads == 1) {
    const FlushDenormals guard;
    for (int task = 0; task < across * down; ++task) compute(task, 0);
    return;
  }
  state_.pool.parallel_for(across * down, compute);
}

}  // namespace pagedinfer
