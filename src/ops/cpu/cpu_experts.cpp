#include "ops/cpu/cpu_experts.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/numbers.h"
#include "ops/cpu/apply_gate.h"
#include "ops/cpu/cpu_matmul.h"
#include "ops/cpu/gate_block.h"
#include "ops/cpu/packed_input.h"

namespace pagedinfer {
namespace {

constexpr const char* kRowsName = "the rows of experts";
constexpr const char* kGatedName = "the results of experts' gates";

// Rows of an expert that are gathered at a time.
constexpr int kGatheredRows = 4 * kPackedRows;
constexpr int kBetweenRows = 16;  // numbers, so that rows are not all in one set of the cache

// Columns of the output that a task owns.
int owned_columns(int num_threads, int64_t columns) {
  constexpr int kPerThread = 4, kUnit = 64, kMax = 256;
  const int64_t each = ceil_div(columns, int64_t{num_threads} * kPerThread);
  return static_cast<int>(std::min<int64_t>(kMax, ceil_div(each, int64_t{kUnit}) * kUnit));
}

// The packed inputs of products of this many columns, one for each expert with a row.
int64_t packed_groups(const StepBounds& bounds, int64_t columns) {
  const int64_t rows = bounds.tokens * bounds.experts.per_row;
  const int64_t groups = std::min<int64_t>(rows, bounds.experts.experts);
  return packed_bytes(rows + groups * (kPackedRows - 1), columns);
}
int64_t packed_x_bytes(const StepBounds& bounds) {
  const ExpertBounds& experts = bounds.experts;
  const int64_t of_shared =
      experts.shared_width > 0 ? packed_bytes(bounds.tokens, experts.hidden) : 0;
  return packed_groups(bounds, experts.hidden) + of_shared +
         packed_bytes(bounds.tokens, experts.hidden);
}
int64_t packed_gated_bytes(const StepBounds& bounds) {
  const ExpertBounds& experts = bounds.experts;
  return packed_groups(bounds, experts.width) + packed_bytes(bounds.tokens, experts.shared_width);
}

}  // namespace

struct CpuExperts::Call {
  Tensor x;
  const ExpertChoice& choice;
  std::span<const Expert> experts;
  Activation activation;
  ClampedSwish swish;
  Tensor out;

  int64_t row_of(int32_t number) const { return number / choice.experts.cols; }
  float weight_of(int32_t number) const {
    return choice.weights.row<float>(row_of(number))[number % choice.experts.cols];
  }
};

CpuExperts::CpuExperts(const CpuOptions& options, const Kernels& kernels, ThreadPool& pool)
    : options_(options), kernels_(kernels), pool_(pool) {}

int64_t CpuExperts::step_bytes(const StepBounds& bounds) {
  if (bounds.experts.experts == 0) return 0;
  return packed_x_bytes(bounds) + packed_gated_bytes(bounds) +
         bounds.tokens * (bounds.experts.experts + 1) * size_of(DType::kF32);
}

int64_t CpuExperts::thread_bytes(const StepBounds& bounds) const {
  if (bounds.experts.experts == 0) return 0;
  return int64_t{sizeof(Worker)} + kGatheredRows * bounds.experts.hidden * size_of(DType::kF32) +
         scratch_bytes(options_.isa);
}

void CpuExperts::reserve(const StepBounds& bounds) {
  if (bounds.experts.experts == 0) return;
  make_room(packed_x_, packed_x_bytes(bounds), kRowsName);
  make_room(packed_gated_, packed_gated_bytes(bounds), kGatedName);
}

void CpuExperts::make_room(HostMemory& memory, int64_t bytes, const char* what) {
  if (memory.size() >= bytes) return;
  memory = HostMemory();  // released first: both may not fit
  memory = HostMemory::of_large_pages(bytes, what);
}

void CpuExperts::make_workers() {
  if (workers_) return;
  workers_.reset(new Worker[static_cast<size_t>(pool_.num_threads())]);
  scratch_ = HostMemory::of_large_pages(pool_.num_threads() * scratch_bytes(options_.isa),
                                        "the sums of experts' products");
}

void* CpuExperts::scratch_of(int worker) {
  return scratch_.data() + worker * scratch_bytes(options_.isa);
}

void CpuExperts::route(Tensor x, const Router& router, const ExpertChoice& choice) {
  const int rows = static_cast<int>(x.rows), k = static_cast<int>(x.cols);
  const int experts = static_cast<int>(router.weight.rows);
  if (rows == 0) return;
  CHECK(router.weight.dtype == DType::kF32 && router.weight.cols == k && x.dtype == DType::kF32);
  make_room(packed_x_, packed_bytes(rows, k), kRowsName);
  logits_.resize(static_cast<size_t>(rows) * static_cast<size_t>(experts + 1));
  const ProductKernels& kernels = kernels_.product_float_float;
  const int64_t stride = experts + 1;  // the last one is of the shared expert's gate
  // Several tasks even for a few rows, because they read all of the router.
  constexpr int kExperts = 32;
  const int row_tasks = ceil_div(rows, kPackedRows), parts = ceil_div(experts, kExperts);
  const auto multiply = [&](const Tensor& weight, int task, int first, int last, float* y) {
    kernels.multiply({.packed = packed_x_.data(),
                      .num_rows = rows,
                      .k = k,
                      .weights = weight.data,
                      .weight_stride = weight.stride,
                      .y = y,
                      .y_stride = stride,
                      .first_row = task * kPackedRows,
                      .last_row = std::min(rows, (task + 1) * kPackedRows),
                      .first = first,
                      .last = last});
  };
  pool_.parallel_for(row_tasks, [&](int task, int) {
    const int first = task * kPackedRows, last = std::min(rows, first + kPackedRows);
    kernels.pack({x.row<float>(first), x.stride, rows, k, first, last, 0, k, packed_x_.data()});
  });
  pool_.parallel_for(row_tasks * parts, [&](int task, int) {
    const int first = task % parts * kExperts, last = std::min(experts, first + kExperts);
    multiply(router.weight, task / parts, first, last, logits_.data());
    if (first > 0 || router.shared_gate.empty()) return;
    multiply(router.shared_gate, task / parts, 0, 1, logits_.data() + experts);
  });
  pool_.parallel_for(row_tasks, [&](int task, int) {
    for (int i = task * kPackedRows; i < std::min(rows, (task + 1) * kPackedRows); ++i) {
      float* const logits = logits_.data() + i * stride;
      if (!router.bias.empty()) kernels_.add(logits, router.bias.row<float>(0), experts);
      choose_experts({logits, static_cast<size_t>(experts)}, router, logits[experts], i, choice);
    }
  });
}

void CpuExperts::make_groups(const Call& call, const ExpertGroups& groups) {
  const int32_t* const starts = groups.starts.row<int32_t>(0);
  const int32_t* const numbers = groups.numbers.row<int32_t>(0);
  groups_.clear();
  int64_t x_bytes = 0, gated_bytes = 0;
  std::vector<std::pair<int64_t, int64_t>> places;
  for (size_t e = 0; e < call.experts.size(); ++e) {
    const auto count = static_cast<size_t>(starts[e + 1] - starts[e]);
    if (count == 0) continue;
    const Expert& expert = call.experts[e];
    groups_.push_back({&expert, {numbers + starts[e], count}, nullptr, nullptr});
    places.emplace_back(x_bytes, gated_bytes);
    x_bytes += packed_bytes(static_cast<int64_t>(count), expert.gate.cols);
    gated_bytes += packed_bytes(static_cast<int64_t>(count), expert.down.cols);
  }
  make_room(packed_x_, x_bytes + packed_bytes(call.x.rows, call.x.cols), kRowsName);
  packed_rows_ = packed_x_.data() + x_bytes;
  make_room(packed_gated_, gated_bytes, kGatedName);
  for (size_t i = 0; i < groups_.size(); ++i) {
    groups_[i].x = packed_x_.data() + places[i].first;
    groups_[i].gated = packed_gated_.data() + places[i].second;
  }
}

void CpuExperts::pack_groups(const Call& call) {
  const int rows = static_cast<int>(call.x.rows), k = static_cast<int>(call.x.cols);
  const ProductKernels& kernels = product_of_rows();
  if (kernels.gather != nullptr) {
    pool_.parallel_for(ceil_div(rows, kPackedRows), [&](int i, int) {
      const int first = i * kPackedRows, last = std::min(rows, first + kPackedRows);
      kernels.pack(
          {call.x.row<float>(first), call.x.stride, rows, k, first, last, 0, k, packed_rows_});
    });
  }
  std::vector<Block> parts;
  for (const Group& group : groups_) {
    for (int row = 0; row < group.rows(); row += kGatheredRows) parts.push_back({&group, row, 0});
  }
  pool_.parallel_for(static_cast<int>(parts.size()), [&](int i, int worker) {
    const Block& part = parts[static_cast<size_t>(i)];
    pack_rows(call, *part.group, part.first_row, workers_[static_cast<size_t>(worker)]);
  });
}

const ProductKernels& CpuExperts::product_of_rows() const {
  const Tensor& gate = groups_[0].expert->gate;
  return product_of(options_, gate.dtype, gate.layout);
}

void CpuExperts::pack_rows(const Call& call, const Group& group, int first_row,
                           Worker& worker) const {
  const Tensor& gate = group.expert->gate;
  const ProductKernels& kernels = product_of(options_, gate.dtype, gate.layout);
  const int last_row = std::min(group.rows(), first_row + kGatheredRows);
  const auto k = static_cast<int>(call.x.cols);
  if (kernels.gather != nullptr && &kernels == &product_of_rows()) {
    return kernels.gather({packed_rows_, static_cast<int>(call.x.rows), k, group.numbers.data(),
                           call.choice.experts.cols, group.x, group.rows(), first_row, last_row});
  }
  worker.gathered.resize(static_cast<size_t>(kGatheredRows) * static_cast<size_t>(k));
  for (int i = first_row; i < last_row; ++i) {
    const int32_t number = group.numbers[static_cast<size_t>(i)];
    std::copy_n(call.x.row<float>(call.row_of(number)), k,
                worker.gathered.data() + int64_t{i - first_row} * k);
  }
  kernels.pack({worker.gathered.data(), k, group.rows(), k, first_row, last_row, 0, k, group.x});
}

void CpuExperts::compute_gate(const Call& call, const Block& block, const Block* next, int worker) {
  const Group& group = *block.group;
  const Expert& expert = *group.expert;
  const ProductKernels& kernels = product_of(options_, expert.gate.dtype, expert.gate.layout);
  const ProductKernels& of_down = product_of(options_, expert.down.dtype, expert.down.layout);
  const GateBlock size = gate_block(options_.isa, input_type(options_, expert.down.dtype));
  const int rows = group.rows(), columns = static_cast<int>(expert.gate.rows);
  const int first_row = block.first_row, last_row = std::min(rows, first_row + size.rows);
  const int first = block.first_column, last = std::min(columns, first + size.columns);
  const int64_t stride = size.columns + kBetweenRows;
  Worker& buffers = workers_[static_cast<size_t>(worker)];
  const auto multiply = [&](const Tensor& weight, const Tensor& bias, float* y, const void* after) {
    kernels.multiply({.packed = group.x,
                      .num_rows = rows,
                      .k = static_cast<int>(weight.cols),
                      .weights = weight.data,
                      .weight_stride = weight.stride,
                      .y = y - first_row * stride - first,  // of row 0 and output 0
                      .y_stride = stride,
                      .first_row = first_row,
                      .last_row = last_row,
                      .first = first,
                      .last = last,
                      .after = after,
                      .tuning = options_.tuning,
                      .scratch = scratch_of(worker)});
    for (int row = first_row; row < last_row && !bias.empty(); ++row, y += stride) {
      kernels_.add(y, bias.row<float>(0) + first, last - first);
    }
  };
  multiply(expert.gate, expert.gate_bias, buffers.gate, panel_at(expert.up, first));
  multiply(expert.up, expert.up_bias, buffers.up,
           next == nullptr ? nullptr : panel_at(next->group->expert->gate, next->first_column));
  for (int row = first_row; row < last_row; ++row) {
    const int64_t at = (row - first_row) * stride;
    apply_gate(kernels_, call.activation, call.swish, buffers.gate + at, buffers.up + at,
               buffers.gate + at, last - first);
  }
  of_down.pack(
      {buffers.gate, stride, rows, columns, first_row, last_row, first, last, group.gated});
}

void CpuExperts::add_outputs(const Call& call, int first, int last, int next, int worker) {
  constexpr int kMaxRows = 256;
  const int64_t stride = last - first + kBetweenRows;
  float* const y = workers_[static_cast<size_t>(worker)].gate;
  for (int64_t row = 0; row < call.x.rows; ++row) {
    std::fill(call.out.row<float>(row) + first, call.out.row<float>(row) + last, 0.0f);
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    const Expert& expert = *group.expert;
    const Tensor& down = expert.down;
    const ProductKernels& kernels = product_of(options_, down.dtype, down.layout);
    const bool is_last = g + 1 == groups_.size();
    const Tensor& next_down = groups_[is_last ? 0 : g + 1].expert->down;
    const int next_first = is_last ? next : first;
    for (int first_row = 0; first_row < group.rows(); first_row += kMaxRows) {
      const int last_row = std::min(group.rows(), first_row + kMaxRows);
      kernels.multiply({.packed = group.gated,
                        .num_rows = group.rows(),
                        .k = static_cast<int>(down.cols),
                        .weights = down.data,
                        .weight_stride = down.stride,
                        .y = y - first_row * stride - first,
                        .y_stride = stride,
                        .first_row = first_row,
                        .last_row = last_row,
                        .first = first,
                        .last = last,
                        .after = next_first < 0 ? nullptr : panel_at(next_down, next_first),
                        .tuning = options_.tuning,
                        .scratch = scratch_of(worker)});
      for (int i = first_row; i < last_row; ++i) {
        float* const of_row = y + (i - first_row) * stride;
        const int32_t number = group.numbers[static_cast<size_t>(i)];
        if (!expert.down_bias.empty()) {
          kernels_.add(of_row, expert.down_bias.row<float>(0) + first, last - first);
        }
        kernels_.add_scaled(call.out.row<float>(call.row_of(number)) + first, of_row,
                            call.weight_of(number), last - first);
      }
    }
  }
}

void CpuExperts::multiply(Tensor x, const ExpertChoice& choice, const ExpertGroups& groups,
                          std::span<const Expert> experts, Activation activation,
                          const ClampedSwish& swish, Tensor out) {
  if (x.rows == 0) return;
  CHECK(x.dtype == DType::kF32 && out.dtype == DType::kF32 && out.cols == x.cols);
  CHECK(std::ssize(experts) + 1 == groups.starts.cols);
  for (const Expert& expert : experts) {  // they share an input
    CHECK(expert.gate.dtype == expert.up.dtype && expert.gate.layout == expert.up.layout);
  }
  const Call call = {x, choice, experts, activation, swish, out};
  make_workers();
  make_groups(call, groups);

  pack_groups(call);

  blocks_.clear();
  for (const Group& group : groups_) {
    const GateBlock size = gate_block(options_.isa, input_type(options_, group.expert->down.dtype));
    for (int row = 0; row < group.rows(); row += size.rows) {
      for (int column = 0; column < group.expert->gate.rows; column += size.columns) {
        blocks_.push_back({&group, row, column});
      }
    }
  }
  // By the rows of the block, and of the whole expert.
  std::ranges::stable_sort(blocks_, std::ranges::greater{}, [](const Block& block) {
    return std::pair(std::min(block.group->rows() - block.first_row, 64), block.group->rows());
  });
  const int threads = pool_.num_threads();
  const auto blocks = static_cast<int>(blocks_.size());
  pool_.parallel_for(blocks, [&](int i, int worker) {
    const Block* const block = &blocks_[static_cast<size_t>(i)];
    compute_gate(call, *block, i + threads < blocks ? block + threads : nullptr, worker);
  });

  const int owned = owned_columns(threads, out.cols);
  const int columns = static_cast<int>(out.cols);
  pool_.parallel_for(ceil_div(columns, owned), [&](int i, int worker) {
    const int next = (i + threads) * owned;
    add_outputs(call, i * owned, std::min(columns, (i + 1) * owned), next < columns ? next : -1,
                worker);
  });
}

}  // namespace pagedinfer
