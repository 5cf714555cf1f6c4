#include "ops/cpu/cpu_arithmetic.h"

#include <algorithm>

#include "core/check.h"
#include "ops/cpu/int4_format.h"
#include "ops/cpu/kv_positions.h"
#include "ops/cpu/packed_format.h"

namespace pagedinfer {

namespace {

// RMSNorm of one row, as a whole or head by head.
void norm_row(const Kernels& kernels, const float* x, const Tensor& weight, float offset, float eps,
              int64_t cols, float* out) {
  for (int64_t c = 0; c < cols; c += weight.cols) {
    kernels.rms_norm(x + c, weight.row<float>(0), offset, eps, out + c, weight.cols);
  }
}

// Rotates the heads of one row by the angles in row i of the table, if there is one.
void rotate_row(const Kernels& kernels, const Tensor& table, int64_t i, int64_t cols, int head_dim,
                float* x) {
  if (table.empty()) return;
  const int64_t half = table.cols / 2;
  const float* const cos = table.row<float>(i);
  for (int64_t c = 0; c < cols; c += head_dim) kernels.rope(x + c, cos, cos + half, half);
}

float scale_at(const RopeScale& scale, int position) {
  if (scale.factors.empty()) return scale.all;
  const int64_t last = scale.factors.cols - 1;
  const int64_t i = std::min<int64_t>(position / scale.positions_per_factor, last);
  return scale.all * scale.factors.row<float>(0)[i];
}

}  // namespace

CpuArithmetic::CpuArithmetic(CpuState& state)
    : state_(state),
      matmul_(state),
      gated_matmul_(state, matmul_),
      attention_(state.options.isa, state.pool),
      experts_(state.options, state.kernels, state.pool) {}

int64_t CpuArithmetic::step_bytes(const StepBounds& bounds) {
  return 2 * PackedRows::bytes(bounds) + CpuExperts::step_bytes(bounds);
}

int64_t CpuArithmetic::thread_bytes(const StepBounds& bounds) const {
  const int64_t each = scratch_bytes(state_.options.isa) + CpuGatedMatmul::thread_bytes() +
                       experts_.thread_bytes(bounds);
  return state_.options.num_threads * each +
         attention_.max_bytes(bounds, state_.options.attention.head_dim);
}

void CpuArithmetic::reserve(const StepBounds& bounds) {
  matmul_.packed().reserve(bounds);
  gated_matmul_.gated().reserve(bounds);
  experts_.reserve(bounds);
}

int64_t CpuArithmetic::held_bytes() const {
  int64_t bytes = experts_.held_bytes();
  for (const std::span<char> rows : packed_rows()) bytes += std::ssize(rows);
  return bytes;
}

void CpuArithmetic::embed(Tensor table, Tensor tokens, float scale, Tensor out) {
  state_.for_rows(out.rows, out.rows * out.cols, [&](int64_t i) {
    const int32_t token = int_at(tokens, i);
    CHECK(0 <= token && token < table.rows);
    if (table.dtype == DType::kI4) {
      widen_int4_row(table, token, out.row<float>(i));
    } else if (table.layout == Layout::kPanels) {
      packed_format(table.dtype, state_.options.isa)
          .widen_row(state_.kernels, table, token, out.row<float>(i));
    } else {
      widen_numbers(state_.kernels, table, token, 0, out.cols, out.row<float>(i));
    }
    if (scale != 1.0f) state_.kernels.scale(out.row<float>(i), scale, out.row<float>(i), out.cols);
  });
}

void CpuArithmetic::rms_norm(Tensor x, Tensor weight, float offset, float eps, Tensor out) {
  CHECK(weight.dtype == DType::kF32 && x.cols % weight.cols == 0);
  state_.for_rows(x.rows, x.rows * x.cols, [&](int64_t i) {
    norm_row(state_.kernels, x.row<float>(i), weight, offset, eps, x.cols, out.row<float>(i));
  });
}

void CpuArithmetic::add(Tensor x, Tensor y) {
  state_.for_rows(x.rows, x.rows * x.cols,
                  [&](int64_t i) { state_.kernels.add(x.row<float>(i), y.row<float>(i), x.cols); });
}

void CpuArithmetic::add_bias(Tensor x, Tensor bias) {
  state_.for_rows(x.rows, x.rows * x.cols, [&](int64_t i) {
    state_.kernels.add(x.row<float>(i), bias.row<float>(0), x.cols);
  });
}

void CpuArithmetic::scale(Tensor x, float factor) {
  state_.for_rows(x.rows, x.rows * x.cols, [&](int64_t i) {
    state_.kernels.scale(x.row<float>(i), factor, x.row<float>(i), x.cols);
  });
}

void CpuArithmetic::softcap(Tensor x, float cap) {
  CHECK(x.dtype == DType::kF32);
  constexpr int64_t kCostOfATanh = 8;
  state_.for_rows(x.rows, x.rows * x.cols * kCostOfATanh,
                  [&](int64_t i) { state_.kernels.softcap(x.row<float>(i), cap, x.cols); });
}

void CpuArithmetic::rope_table(Tensor positions, Tensor inv_freq, const RopeScale& scale,
                               Tensor out) {
  const int half = static_cast<int>(inv_freq.cols);
  CHECK(inv_freq.dtype == DType::kF32 && out.cols == 2 * half);
  constexpr int64_t kCostOfAnAngle = 32;
  state_.for_rows(out.rows, out.rows * half * kCostOfAnAngle, [&](int64_t i) {
    float* const cos = out.row<float>(i);
    const int position = int_at(positions, i);
    state_.kernels.rope_table(position, inv_freq.row<float>(0), half, scale_at(scale, position),
                              cos, cos + half);
  });
}

void CpuArithmetic::rope(Tensor x, Tensor table, int head_dim) {
  CHECK(x.cols % head_dim == 0 && table.cols <= head_dim);
  state_.for_rows(x.rows, x.rows * x.cols, [&](int64_t i) {
    rotate_row(state_.kernels, table, i, x.cols, head_dim, x.row<float>(i));
  });
}

void CpuArithmetic::gate(Tensor gate, Tensor up, Activation activation, Tensor out) {
  const auto f = activation == Activation::kSilu ? state_.kernels.silu : state_.kernels.gelu_tanh;
  constexpr int64_t kCostOfAnExp = 4;
  state_.for_rows(out.rows, out.rows * out.cols * kCostOfAnExp, [&](int64_t i) {
    f(gate.row<float>(i), up.row<float>(i), out.row<float>(i), out.cols);
  });
}

void CpuArithmetic::write_kv(Tensor k, Tensor v, Tensor slot_mapping, KvLayer cache) {
  state_.for_rows(k.rows, 2 * k.rows * k.cols, [&](int64_t i) {
    write_position(state_.kernels, k.row<float>(i), v.row<float>(i), cache,
                   int_at(slot_mapping, i));
  });
}

// In one pass, so that a row stays in the cache between its operations.
void CpuArithmetic::rotate_and_write_kv(Tensor q, Tensor k, Tensor v, const HeadNorms& norms,
                                        const RopeTables& tables, Tensor slot_mapping,
                                        KvLayer cache) {
  const int head_dim = cache.head_dim;
  CHECK(q.cols % head_dim == 0 && k.cols % head_dim == 0 && tables.q.cols <= head_dim &&
        tables.k.cols <= head_dim);
  const auto rotate = [&](const Tensor& x, const Tensor& norm, const Tensor& table, int64_t i) {
    float* const row = x.row<float>(i);
    if (!norm.empty()) norm_row(state_.kernels, row, norm, norms.offset, norms.eps, x.cols, row);
    if (norms.limit > 0.0f) state_.kernels.limit(row, norms.limit, x.cols);
    rotate_row(state_.kernels, table, i, x.cols, head_dim, row);
  };
  state_.for_rows(q.rows, q.rows * (q.cols + 2 * k.cols), [&](int64_t i) {
    rotate(q, norms.q, tables.q, i);
    rotate(k, norms.k, tables.k, i);
    if (norms.limit > 0.0f) state_.kernels.limit(v.row<float>(i), norms.limit, v.cols);
    write_position(state_.kernels, k.row<float>(i), v.row<float>(i), cache,
                   int_at(slot_mapping, i));
  });
}

void CpuArithmetic::gather_rows(Tensor x, Tensor indices, Tensor out) {
  for (int64_t i = 0; i < out.rows; ++i) {
    std::copy_n(x.row<float>(int_at(indices, i)), x.cols, out.row<float>(i));
  }
}

}  // namespace pagedinfer
