#include "ops/cpu/cpu_matmul.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/denormals.h"
#include "core/numbers.h"
#include "core/tensor.h"
#include "ops/cpu/bf16_layout.h"
#include "ops/cpu/int4_format.h"
#include "ops/cpu/int4_layout.h"
#include "ops/cpu/int8_layout.h"
#include "ops/cpu/packed_input.h"

namespace pagedinfer {

const ProductKernels& product_of(const CpuOptions& options, DType weight, Layout layout) {
  if (weight == DType::kI8) return int8_product_of(options.isa);
  if (weight == DType::kI4) return int4_product_of(options.isa);
  const Kernels& kernels = kernels_of(options.isa);
  if (layout == Layout::kPanels) {
    if (options.isa == CpuIsa::kAmx) return kAmxPanelProduct;
    return options.tuning.tall_tiles ? kernels.product_bf16_panels_tall
                                     : kernels.product_bf16_panels;
  }
  if (options.compute == DType::kBF16) {
    CHECK(weight == DType::kBF16);
    return options.isa == CpuIsa::kAmx ? kAmxProduct : kernels.product_bf16;
  }
  switch (weight) {
    case DType::kF32: return kernels.product_float_float;
    case DType::kBF16: return kernels.product_float_bf16;
    case DType::kF16: return kernels.product_float_f16;
    case DType::kI32: break;
    case DType::kI8: break;
    case DType::kI4: break;
  }
  CHECK(false);
}

DType input_type(const CpuOptions& options, DType weight) {
  return weight == DType::kI8 || weight == DType::kI4 ? weight : options.compute;
}

const void* panel_at(const Tensor& weights, int64_t output) {
  if (weights.layout != Layout::kPanels) return nullptr;
  const auto* const data = static_cast<const char*>(weights.data);
  switch (weights.dtype) {
    case DType::kI8: return data + output / kInt8Panel * weights.stride;
    case DType::kI4: return data + sizeof(Int4Header) + output / kInt8Panel * weights.stride;
    default: return weights.row<bf16>(output / kBf16Panel);
  }
}

int64_t scratch_bytes(CpuIsa isa) { return isa == CpuIsa::kAmx ? kMultiplyScratch : 0; }

namespace {

// The size of a task. There are several tasks per thread, so that all threads end at about the same
// time, but they are large, because the first weights of each task have not been prefetched. On AMX
// a task of many rows has many outputs too: it brings its rows to the second-level cache first.
struct TaskSize {
  int outputs, rows;
};
// A multiple of `unit` that divides the outputs of each product, so that all tasks are equal: the
// largest one from half of `most` to `most`. If there is none, `most`.
int equal_size(std::span<const Product> products, int most, int unit) {
  for (int size = most; 2 * size >= most; size -= unit) {
    const auto fits = [&](const Product& product) { return product.weight.rows % size == 0; };
    if (std::ranges::all_of(products, fits)) return size;
  }
  return most;
}
TaskSize task_size(int num_threads, std::span<const Product> products, int64_t outputs,
                   int num_rows, CpuIsa isa) {
  const DType weight = products[0].weight.dtype;
  const bool is_amx = isa == CpuIsa::kAmx;
  const bool has_large_panels = weight == DType::kI8 || weight == DType::kI4;
  const int min_outputs = is_amx ? (num_rows > 64 ? 256 : 64) : has_large_panels ? kInt8Panel : 32;
  const int max_outputs = is_amx ? 2048 : 1024;
  constexpr int kMinRows = 64, kPerThread = 4;
  if (num_threads == 1) return {static_cast<int>(outputs), num_rows};
  const int tasks = num_threads * kPerThread;
  const int most = static_cast<int>(std::min<int64_t>(
      max_outputs, ceil_div(ceil_div(outputs, tasks), min_outputs) * min_outputs));
  const int size = equal_size(products, most, min_outputs);
  const int output_parts = static_cast<int>(ceil_div(outputs, size));
  const int row_parts = std::min(ceil_div(num_rows, kMinRows), std::max(1, tasks / output_parts));
  return {size, ceil_div(ceil_div(num_rows, row_parts), kPackedRows) * kPackedRows};
}

}  // namespace

int64_t PackedRows::bytes(const StepBounds& bounds) {
  return packed_bytes(bounds.tokens, bounds.widest_input);
}

void PackedRows::reserve(const StepBounds& bounds) {
  memory_ = HostMemory::of_large_pages(bytes(bounds), what_);
}

char* PackedRows::room_for(int64_t rows, int64_t cols) {
  const int64_t needed = packed_bytes(rows, cols);
  if (memory_.size() < needed) {
    memory_ = HostMemory();  // released first: both may not fit
    memory_ = HostMemory::of_large_pages(needed, what_);
  }
  return memory_.data();
}

bool share_input(const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype || a.layout != b.layout) return false;
  const int32_t *const of_a = column_order(a), *const of_b = column_order(b);
  if (of_a == nullptr || of_b == nullptr) return of_a == of_b;
  return std::equal(of_a, of_a + a.cols, of_b);
}

CpuMatmul::CpuMatmul(CpuState& state)
    : state_(state),
      scratch_(HostMemory::of_large_pages(
          state.pool.num_threads() * scratch_bytes(state.options.isa), "the sums of products")) {}

const void* CpuMatmul::pack_input(const Tensor& x, const Tensor& weight) {
  const ProductKernels& kernels = product_of(state_.options, weight.dtype, weight.layout);
  const int32_t* const order = column_order(weight);
  if (x.layout == Layout::kPanels) {
    CHECK(x.dtype == input_type(state_.options, weight.dtype) && order == nullptr);
    return x.data;
  }
  CHECK(x.dtype == DType::kF32);
  const int rows = static_cast<int>(x.rows), k = static_cast<int>(x.cols);
  char* const packed = packed_.room_for(rows, k);
  constexpr int kMinPacked = 1 << 16;  // numbers per thread
  const int pack_rows = ceil_div(std::max(1, kMinPacked / k), kPackedRows) * kPackedRows;
  state_.pool.parallel_for(ceil_div(rows, pack_rows), [&](int task, int) {
    const int first = task * pack_rows, last = std::min(rows, first + pack_rows);
    kernels.pack({x.row<float>(first), x.stride, rows, k, first, last, 0, k, packed, order});
  });
  return packed;
}

int CpuMatmul::threads_for(int64_t multiplications) const {
  constexpr int64_t kMinWork = 1 << 18;  // that justifies several threads
  return multiplications < kMinWork ? 1 : state_.pool.num_threads();
}

void CpuMatmul::run(Tensor x, std::span<const Product> products) {
  if (x.rows == 0) return;
  while (!products.empty()) {
    size_t count = 1;
    while (count < products.size() && share_input(products[0].weight, products[count].weight)) {
      ++count;
    }
    multiply_packed(x, pack_input(x, products[0].weight), products.first(count));
    products = products.subspan(count);
  }
}

void CpuMatmul::multiply_packed(const Tensor& x, const void* packed,
                                std::span<const Product> products) {
  const int rows = static_cast<int>(x.rows), k = static_cast<int>(x.cols);
  const DType type = products[0].weight.dtype;
  const Layout layout = products[0].weight.layout;
  int64_t outputs = 0;
  for (const Product& product : products) {
    const Tensor &weight = product.weight, &out = product.out;
    CHECK(weight.cols == k && out.rows == rows && out.cols == weight.rows);
    CHECK(weight.dtype == type && weight.layout == layout && out.dtype == DType::kF32);
    outputs += weight.rows;
  }
  const ProductKernels& kernels = product_of(state_.options, type, layout);
  const int num_threads = threads_for(outputs * rows * k);
  const TaskSize size = task_size(num_threads, products, outputs, rows, state_.options.isa);
  const int row_parts = ceil_div(rows, size.rows);
  constexpr int64_t kStaysInCaches = 1 << 20;
  const bool streams_y = outputs * rows * size_of(DType::kF32) > kStaysInCaches;
  const auto multiply = [&](const Product& product, int task, int worker, const void* after) {
    const int first = task / row_parts * size.outputs, first_row = task % row_parts * size.rows;
    const int64_t last = std::min<int64_t>(product.weight.rows, first + size.outputs);
    kernels.multiply({.packed = packed,
                      .num_rows = rows,
                      .k = k,
                      .weights = product.weight.data,
                      .weight_stride = product.weight.stride,
                      .y = product.out.row<float>(0),
                      .y_stride = product.out.stride,
                      .first_row = first_row,
                      .last_row = std::min(rows, first_row + size.rows),
                      .first = first,
                      .last = static_cast<int>(last),
                      .after = after,
                      .tuning = state_.options.tuning,
                      .scratch = scratch_of(worker),
                      .streams_y = streams_y});
  };
  if (num_threads == 1) {
    const FlushDenormals guard;
    for (const Product& product : products) multiply(product, 0, 0, nullptr);
    return;
  }
  const auto tasks_of = [&](const Product& product) {
    return static_cast<int>(ceil_div(product.weight.rows, size.outputs)) * row_parts;
  };
  // The product that has a task, and the task's place in it.
  const auto find = [&](int task) {
    const Product* product = products.data();
    for (; task >= tasks_of(*product); ++product) task -= tasks_of(*product);
    return std::pair(product, task);
  };
  int tasks = 0;
  for (const Product& product : products) tasks += tasks_of(product);
  state_.pool.parallel_for(tasks, [&](int task, int worker) {
    const void* after = nullptr;
    if (row_parts == 1 && task + num_threads < tasks) {
      const auto [next, place] = find(task + num_threads);
      after = panel_at(next->weight, int64_t{place} * size.outputs);
    }
    const auto [product, place] = find(task);
    multiply(*product, place, worker, after);
  });
}

}  // namespace pagedinfer
