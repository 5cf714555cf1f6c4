// A thread block has some outputs of one expert and goes over the expert's rows, a tile at a time.
// Bound by shared memory and by fma, far from what tensor cores would do; with few rows by reading
// the weights. Tiles of few rows waste less where experts have few, with the same bits.
#include "kernels/common.cuh"
#include "kernels/exact_math.h"
#include "kernels/expert_products.h"
#include "kernels/int8_panels.h"

namespace pagedinfer::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kOutputs = 64;  // of a thread block
constexpr int kRowsEach = 4;  // rows of a thread
constexpr int kColumns = 32;  // in shared memory at a time
constexpr int kWords = kInt8Columns / 4;
constexpr int kMinBlocks = 2;  // of a multiprocessor, for which registers are left
// Experts of a launch: what it gets as an argument may have 4 KiB.
constexpr int kExpertsAtOnce = 56;

struct ExpertsOfLaunch {
  int first;  // among all experts
  ExpertMatrices at[kExpertsAtOnce];
};
static_assert(sizeof(ExpertsOfLaunch) + sizeof(ExpertProductsArgs) <= 4096);

template <int kRows>
struct ExpertTile {
  static constexpr int kAcross = kThreads / (kRows / kRowsEach);
  static constexpr int kOutputsEach = kOutputs / kAcross;

  // The first row and output of this thread. Its outputs are kAcross apart.
  __device__ static int row() { return static_cast<int>(threadIdx.x) / kAcross * kRowsEach; }
  __device__ static int output() { return static_cast<int>(threadIdx.x) % kAcross; }
};
template <int kRows>
using TileSums = float[kRowsEach][ExpertTile<kRows>::kOutputsEach];

// Loads kDepth words of each row and each output, and calls add(i, j, word of row i, word of output
// j) for those of this thread. All threads of the block call it.
template <int kRows, int kDepth, class Left, class Right, class Add>
__device__ void add_depth(const Left& left, const Right& right, const Add& add) {
  using Tile = ExpertTile<kRows>;
  __shared__ uint32_t rows[kDepth][kRows + 1], outputs[kDepth][kOutputs + 1];
  __syncthreads();  // what was there is no longer read
  for (int i = threadIdx.x; i < kRows * kDepth; i += kThreads) {
    rows[i % kDepth][i / kDepth] = left(i / kDepth, i % kDepth);
  }
  for (int i = threadIdx.x; i < kOutputs * kDepth; i += kThreads) {
    outputs[i % kDepth][i / kDepth] = right(i / kDepth, i % kDepth);
  }
  __syncthreads();
#pragma unroll 4
  for (int d = 0; d < kDepth; ++d) {
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::kOutputsEach; ++j) {
        add(i, j, rows[d][Tile::row() + i], outputs[d][Tile::output() + j * Tile::kAcross]);
      }
    }
  }
}

// The input of a product. row_of() gives the row of the input for a row of the tile, or -1.
struct ProductInput {
  const void* data;
  int64_t stride;    // elements
  int64_t num_rows;  // of all: in int8 their scales follow
};

// totals = the products of a tile's rows by the outputs from `first` on of `weights`, (outputs,
// cols).
template <class T, int kRows, class RowOf>
__device__ void multiply(const ProductInput& input, const RowOf& row_of, const void* weights,
                         int outputs, int cols, int first, TileSums<kRows>& totals) {
  const T* const from = static_cast<const T*>(input.data);
  const T* const matrix = static_cast<const T*>(weights);
  for (int column = 0; column < cols; column += kColumns) {
    add_depth<kRows, kColumns>(
        [&](int i, int d) {
          const int row = row_of(i);
          const bool valid = row >= 0 && column + d < cols;
          return bits_of_float(valid ? to_float(from[row * input.stride + column + d]) : 0.0f);
        },
        [&](int i, int d) {
          const bool valid = first + i < outputs && column + d < cols;
          return bits_of_float(valid ? to_float(matrix[int64_t{first + i} * cols + column + d])
                                     : 0.0f);
        },
        [&](int i, int j, uint32_t x, uint32_t w) {
          totals[i][j] = __fmaf_rn(float_of_bits(x), float_of_bits(w), totals[i][j]);
        });
  }
}

// The same in int8. The input may have more columns than the weights; they are in other groups, or
// 0.
template <int kRows, class RowOf>
__device__ void multiply_int8(const ProductInput& input, const RowOf& row_of, const void* weights,
                              int outputs, int cols, int first, TileSums<kRows>& totals) {
  using Tile = ExpertTile<kRows>;
  const auto* const from = static_cast<const int8_t*>(input.data);
  const auto* const matrix = static_cast<const int8_t*>(weights);
  const int64_t input_panel = int8_numbers_bytes(input.stride);
  const int64_t weight_panel = int8_weight_panel_bytes(cols);
  const int64_t panels = int8_panels(input.num_rows);
  const auto* const scales = reinterpret_cast<const float*>(from + panels * input_panel);
  const auto word = [](const int8_t* panels, int64_t panel_bytes, int row, int piece, int d) {
    return *reinterpret_cast<const uint32_t*>(panels + row / kInt8Rows * panel_bytes +
                                              int64_t{piece} * kInt8PieceBytes +
                                              row % kInt8Rows * kInt8Columns + 4 * d);
  };
  const int pieces = static_cast<int>(int8_pieces(cols));
  for (int group = 0; group * kInt8GroupPieces < pieces; ++group) {
    int sums[kRowsEach][Tile::kOutputsEach] = {};
    const int end = min_of(pieces, (group + 1) * kInt8GroupPieces);
    for (int piece = group * kInt8GroupPieces; piece < end; ++piece) {
      add_depth<kRows, kWords>(
          [&](int i, int d) {
            const int row = row_of(i);
            return row < 0 ? 0u : word(from, input_panel, row, piece, d);
          },
          [&](int i, int d) {
            return first + i < outputs ? word(matrix, weight_panel, first + i, piece, d) : 0u;
          },
          [&](int i, int j, uint32_t x, uint32_t w) {
            sums[i][j] = __dp4a(static_cast<int>(x), static_cast<int>(w), sums[i][j]);
          });
    }
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
      const int row = row_of(Tile::row() + i);
      const float scale = row < 0 ? 0.0f : scales[group * panels * kInt8Rows + row];
#pragma unroll
      for (int j = 0; j < Tile::kOutputsEach; ++j) {
        totals[i][j] = fma_ftz(static_cast<float>(sums[i][j]), scale, totals[i][j]);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < Tile::kOutputsEach; ++j) {
    const int output = first + Tile::output() + j * Tile::kAcross;
    if (output >= outputs) continue;
    const int8_t* const panel = matrix + output / kInt8Rows * weight_panel;
    const float scale =
        reinterpret_cast<const float*>(panel + int8_numbers_bytes(cols))[output % kInt8Rows];
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) totals[i][j] = mul_ftz(totals[i][j], scale);
  }
}

template <class T, bool kInt8, int kRows, class RowOf>
__device__ void multiply_tile(const ProductInput& input, const RowOf& row_of, const void* weights,
                              int outputs, int cols, int first, TileSums<kRows>& totals) {
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
#pragma unroll
    for (int j = 0; j < ExpertTile<kRows>::kOutputsEach; ++j) totals[i][j] = 0.0f;
  }
  if constexpr (kInt8) {
    multiply_int8<kRows>(input, row_of, weights, outputs, cols, first, totals);
  } else {
    multiply<T, kRows>(input, row_of, weights, outputs, cols, first, totals);
  }
}

template <class T>
__device__ float with_bias(float x, const void* bias, int output) {
  return bias == nullptr ? x : add_rn(x, to_float(static_cast<const T*>(bias)[output]));
}

// With the CPU backend's bits.
__device__ float apply_gate(const ExpertProductsArgs& a, float x, float up) {
  const auto quotient = [](float x, float minus) {
    return div_rn(x, add_rn(1.0f, exact_exp(minus)));
  };
  switch (a.gate) {
    case ExpertGate::kSilu: return mul_rn(quotient(x, sub_rn(0.0f, x)), up);
    case ExpertGate::kGeluTanh: {
      const float slope = add_rn(-1.5957691216057308f, mul_rn(-0.07135481627260025f, mul_rn(x, x)));
      return mul_rn(quotient(x, mul_rn(x, slope)), up);
    }
    default: {
      const float g = x > a.limit ? a.limit : x;
      return mul_rn(quotient(g, sub_rn(0.0f, mul_rn(a.alpha, g))),
                    add_rn(limited(up, a.limit), 1.0f));
    }
  }
}

// Calls compute(row_of, first place, places) for each tile of the expert's rows; the places are
// those of the numbers. row_of(i) is from(number, place) of the i-th place, or -1, after the next
// barrier.
template <int kRows, class From, class Compute>
__device__ void for_each_tile(const ExpertProductsArgs& a, int expert, const From& from,
                              const Compute& compute) {
  __shared__ int row_of_place[kRows];
  const int end = a.starts[expert + 1];
  for (int first = a.starts[expert]; first < end; first += kRows) {
    __syncthreads();  // the rows of the tile before are no longer read
    if (threadIdx.x < kRows) {
      const int place = first + static_cast<int>(threadIdx.x);
      row_of_place[threadIdx.x] = place < end ? from(a.numbers[place], place) : -1;
    }
    compute([&](int i) { return row_of_place[i]; }, first, min_of(kRows, end - first));
  }
}

template <class T, bool kInt8, int kRows>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    expert_gates_kernel(const ExpertProductsArgs a, const ExpertsOfLaunch experts) {
  using Tile = ExpertTile<kRows>;
  const ExpertMatrices& own = experts.at[blockIdx.y];
  const int first_output = static_cast<int>(blockIdx.x) * kOutputs;
  const ProductInput input = {kInt8 ? a.panels : a.x.data, kInt8 ? a.cols : a.x.stride, a.num_rows};
  const int cols = static_cast<int>(a.cols);
  for_each_tile<kRows>(
      a, experts.first + static_cast<int>(blockIdx.y),
      [&](int number, int) { return number / a.choices; },
      [&](const auto& row_of, int first_place, int places) {
        TileSums<kRows> gate, up;
        multiply_tile<T, kInt8, kRows>(input, row_of, own.gate, own.width, cols, first_output,
                                       gate);
        multiply_tile<T, kInt8, kRows>(input, row_of, own.up, own.width, cols, first_output, up);
#pragma unroll
        for (int i = 0; i < kRowsEach; ++i) {
          const int place = Tile::row() + i;
          if (place >= places) continue;
          T* const to = static_cast<T*>(a.gated) + int64_t{first_place + place} * a.max_width;
#pragma unroll
          for (int j = 0; j < Tile::kOutputsEach; ++j) {
            const int output = first_output + Tile::output() + j * Tile::kAcross;
            if (output >= a.max_width) continue;
            to[output] = from_float<T>(
                output >= own.width ? 0.0f
                                    : apply_gate(a, with_bias<T>(gate[i][j], own.gate_bias, output),
                                                 with_bias<T>(up[i][j], own.up_bias, output)));
          }
        }
      });
}

template <class T, bool kInt8, int kRows>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    expert_outputs_kernel(const ExpertProductsArgs a, const ExpertsOfLaunch experts) {
  using Tile = ExpertTile<kRows>;
  const ExpertMatrices& own = experts.at[blockIdx.y];
  const int first_output = static_cast<int>(blockIdx.x) * kOutputs;
  const ProductInput input = {kInt8 ? a.panels : a.gated, a.max_width, a.num_rows * a.choices};
  const int cols = static_cast<int>(a.cols);
  for_each_tile<kRows>(
      a, experts.first + static_cast<int>(blockIdx.y), [](int, int place) { return place; },
      [&](const auto& row_of, int first_place, int places) {
        TileSums<kRows> sums;
        multiply_tile<T, kInt8, kRows>(input, row_of, own.down, cols, own.width, first_output,
                                       sums);
#pragma unroll
        for (int i = 0; i < kRowsEach; ++i) {
          const int place = Tile::row() + i;
          if (place >= places) continue;
          float* const to = a.outputs + a.numbers[first_place + place] * a.cols;
#pragma unroll
          for (int j = 0; j < Tile::kOutputsEach; ++j) {
            const int output = first_output + Tile::output() + j * Tile::kAcross;
            if (output < cols) to[output] = with_bias<T>(sums[i][j], own.down_bias, output);
          }
        }
      });
}

template <class T>
__global__ void __launch_bounds__(kThreads) expert_sum_kernel(const ExpertProductsArgs a) {
  const int64_t row = blockIdx.x;
  const int64_t column = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (column >= a.cols) return;
  float sum = 0.0f;
  for (int64_t number = row * a.choices; number < (row + 1) * a.choices; ++number) {
    sum = fma_ftz(a.weights[number], a.outputs[number * a.cols + column], sum);
  }
  static_cast<T*>(a.out.data)[row * a.out.stride + column] = from_float<T>(sum);
}

// Calls f(zero of the type, whether in int8, rows of a tile as a constant).
template <class F>
void with_shape(const ExpertProductsArgs& a, int64_t experts, const F& f) {
  constexpr int kFew = 16, kMany = 64;
  const bool few = a.num_rows * a.choices <= experts * kFew;
  const auto with_rows = [&](auto zero, auto is_int8) {
    few ? f(zero, is_int8, std::integral_constant<int, kFew>())
        : f(zero, is_int8, std::integral_constant<int, kMany>());
  };
  with_type(a.type, [&](auto zero) {
    a.is_int8 ? with_rows(zero, std::true_type()) : with_rows(zero, std::false_type());
  });
}

// Launches `kernel` for some experts at a time, in blocks of the outputs.
template <class Kernel>
void launch_experts(Kernel kernel, const ExpertProductsArgs& a,
                    std::span<const ExpertMatrices> experts, int64_t outputs, cudaStream_t stream) {
  const unsigned across = static_cast<unsigned>((outputs + kOutputs - 1) / kOutputs);
  ExpertsOfLaunch some = {};
  while (!experts.empty()) {
    const size_t count = experts.size() < kExpertsAtOnce ? experts.size() : kExpertsAtOnce;
    for (size_t i = 0; i < count; ++i) some.at[i] = experts[i];
    launch_kernel(kernel, dim3(across, static_cast<unsigned>(count)), kThreads, 0, stream, a, some);
    some.first += static_cast<int>(count);
    experts = experts.subspan(count);
  }
}

}  // namespace

void launch_expert_gates(const ExpertProductsArgs& args, std::span<const ExpertMatrices> experts,
                         cudaStream_t stream) {
  if (args.num_rows == 0) return;
  with_shape(args, std::ssize(experts), [&](auto zero, auto is_int8, auto rows) {
    launch_experts(expert_gates_kernel<decltype(zero), is_int8(), rows()>, args, experts,
                   args.max_width, stream);
  });
}

void launch_expert_outputs(const ExpertProductsArgs& args, std::span<const ExpertMatrices> experts,
                           cudaStream_t stream) {
  if (args.num_rows == 0) return;
  with_shape(args, std::ssize(experts), [&](auto zero, auto is_int8, auto rows) {
    launch_experts(expert_outputs_kernel<decltype(zero), is_int8(), rows()>, args, experts,
                   args.cols, stream);
  });
}

void launch_expert_sum(const ExpertProductsArgs& args, cudaStream_t stream) {
  if (args.num_rows == 0) return;
  const dim3 grid(static_cast<unsigned>(args.num_rows),
                  static_cast<unsigned>((args.cols + kThreads - 1) / kThreads));
  with_type(args.type, [&](auto zero) {
    launch_kernel(expert_sum_kernel<decltype(zero)>, grid, kThreads, 0, stream, args);
  });
}

}  // namespace pagedinfer::kernels
