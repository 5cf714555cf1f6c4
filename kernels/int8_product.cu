// Products in int8 on tensor cores. The sums of a group of columns are exact, so they are added in
// any order; float32 chains add the groups in ascending order.
//
// Thread blocks have two shapes. Up to kMaxFewRows rows, a block has all rows and 16 or 32 outputs.
// It reads the weights of these outputs once, straight to registers. The weights are the left
// operand, 16 outputs at a time; the input is the right one, 8 rows at a time. Each warp multiplies
// its own group. The sums of all warps pass through shared memory to the threads that chain them.
// With more rows, all warps of a block share a tile of rows and outputs. Asynchronous copies bring
// two pieces of it at a time, and the input is the left operand.
#include "kernels/exact_math.h"
#include "kernels/int8_panels.h"
#include "kernels/int8_product.h"
#include "kernels/tensor_core.cuh"

namespace pagedinfer::kernels {
namespace {

using Piece = Vec<uint32_t, 4>;  // what a lane has of a piece: 8 bytes for each of two instructions

// An accumulator that begins with this is, as the bits of a float, 1.5 * 2^23 + sum, for sums below
// 2^22: 256 products of int8 are. So a subtraction makes it a float, which is faster than a
// conversion.
constexpr int32_t kNoSum = 0x4b400000;
__device__ float sum_of(int32_t accumulator) {
  return sub_rn(float_of_bits(static_cast<uint32_t>(accumulator)), 12582912.0f);
}

// c += a b of the columns of a piece that instruction `i`, 0 or 1, multiplies: `low` and `high` are
// rows 0 to 7 and 8 to 15 of a.
__device__ void multiply_piece(int32_t (&c)[4], const Piece& low, const Piece& high,
                               const Piece& right, int i) {
  const uint32_t left[4] = {low.at[2 * i], high.at[2 * i], low.at[2 * i + 1], high.at[2 * i + 1]};
  multiply_add(c, left, right.at[2 * i], right.at[2 * i + 1]);
}

// The matrices of a product, by panels.
struct Int8Operands {
  const int8_t *input, *weights;
  const float* input_scales;  // (groups, padded_rows)
  int64_t input_stride, weight_stride;
  int input_panels, weight_panels, pieces, groups;

  __device__ explicit Int8Operands(const Int8ProductArgs& a)
      : input(static_cast<const int8_t*>(a.input)),
        weights(static_cast<const int8_t*>(a.weights)),
        input_stride(int8_numbers_bytes(a.cols)),
        weight_stride(int8_weight_panel_bytes(a.cols)),
        input_panels(static_cast<int>(int8_panels(a.num_rows))),
        weight_panels(static_cast<int>(int8_panels(a.outputs))),
        pieces(static_cast<int>(int8_pieces(a.cols))),
        groups(static_cast<int>(int8_groups(a.cols))) {
    input_scales = reinterpret_cast<const float*>(input + input_panels * input_stride);
  }
  // REQUIRES: the row is padded_rows at most, so it is in a panel.
  __device__ float input_scale(int group, int row) const {
    return input_scales[int64_t{group} * input_panels * kInt8Rows + row];
  }
  __device__ float weight_scale(int output) const {
    const int8_t* const panel = weights + output / kInt8Rows * weight_stride;
    return reinterpret_cast<const float*>(panel + input_stride)[output % kInt8Rows];
  }
};

// Where the lane begins to read in a panel, relative to panel `first`. Beyond the last panel it
// reads the last one again; the result is not stored.
__device__ int lane_offset(int64_t stride, int num_panels, int first, int panel) {
  return min_of(panel, num_panels - 1 - first) * static_cast<int>(stride) +
         static_cast<int>(threadIdx.x) % kWarp * 16;
}
// The lane's part of a piece; zeros beyond the last piece.
__device__ Piece load_piece(const int8_t* panels, int offset, int piece, int num_pieces) {
  if (piece >= num_pieces) return {};
  return load_vec<4>(reinterpret_cast<const uint32_t*>(panels + offset + piece * kInt8PieceBytes));
}

// An output of a row and the next one, which may be beyond the last.
template <class T>
__device__ void store_pair(const Int8ProductArgs& a, int row, int output, float first,
                           float second) {
  T* const to = static_cast<T*>(a.out.data) + row * a.out.stride + output;
  if (output + 1 < a.outputs && reinterpret_cast<uintptr_t>(to) % (2 * sizeof(T)) == 0) {
    store_vec(to, Vec<T, 2>{from_float<T>(first), from_float<T>(second)});
    return;
  }
  to[0] = from_float<T>(first);
  if (output + 1 < a.outputs) to[1] = from_float<T>(second);
}
template <class T>
__device__ void store_output(const Int8ProductArgs& a, int row, int output, float x) {
  static_cast<T*>(a.out.data)[row * a.out.stride + output] = from_float<T>(x);
}

constexpr int64_t kMaxFewRows = 64;
constexpr int kFewWarps = 8;
constexpr int kFewThreads = kFewWarps * kWarp;

// kBands: of 16 outputs. kPanels: of 8 rows.
template <int kBands, int kPanels>
struct FewShape {
  static constexpr int kSums = kBands * kPanels * 4;  // of a lane
  // Pieces of a panel of weights that a lane loads before it multiplies them.
  static constexpr int kAhead = kInt8GroupPieces / kBands;
  static constexpr int kBytes = kSums * kFewThreads * int{sizeof(int32_t)};
  // Chains of a thread, of kSums * kWarp of the block.
  static constexpr int kChains = ceil_div(kSums, kFewWarps);
  static constexpr int kMinBlocks = kSums <= 4 ? 3 : kSums <= 16 ? 2 : 1;
};

template <class T, int kBands, int kPanels>
__global__ void __launch_bounds__(kFewThreads, FewShape<kBands, kPanels>::kMinBlocks)
    few_rows_kernel(const Int8ProductArgs a) {
  using S = FewShape<kBands, kPanels>;
  const Int8Operands of(a);
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  const int first_panel = static_cast<int>(blockIdx.x) * 2 * kBands;
  auto* const sums = reinterpret_cast<int32_t*>(dynamic_shared());  // (kFewWarps, kSums, kWarp)

  const int8_t* const own_weights = of.weights + first_panel * of.weight_stride;
  int weights_at[2 * kBands], input_at[kPanels];
#pragma unroll
  for (int p = 0; p < 2 * kBands; ++p) {
    weights_at[p] = lane_offset(of.weight_stride, of.weight_panels, first_panel, p);
  }
#pragma unroll
  for (int p = 0; p < kPanels; ++p) {
    input_at[p] = lane_offset(of.input_stride, of.input_panels, 0, p);
  }
  Piece weights[S::kAhead][2 * kBands];
  const auto load_weights = [&](int slot, int group, int piece) {
#pragma unroll
    for (int p = 0; p < 2 * kBands; ++p) {
      weights[slot][p] =
          load_piece(own_weights, weights_at[p], group * kInt8GroupPieces + piece, of.pieces);
    }
  };
  // A chain's number, and what it is of.
  const auto chain_of = [&](int i) { return static_cast<int>(threadIdx.x) + i * kFewThreads; };
  const auto row_of = [](int chain) {
    const int sum = chain / kWarp, t = chain % kWarp % 4;
    return sum / 4 % kPanels * kInt8Rows + 2 * t + sum % 2;
  };
  const auto output_of = [&](int chain) {
    const int sum = chain / kWarp, g = chain % kWarp / 4;
    return first_panel * kInt8Rows + sum / (4 * kPanels) * 16 + sum % 4 / 2 * 8 + g;
  };

  float totals[S::kChains] = {};
#pragma unroll
  for (int i = 0; i < S::kAhead; ++i) load_weights(i, warp, i);
  for (int first = 0; first < of.groups; first += kFewWarps) {
    int32_t sum[kBands][kPanels][4];
#pragma unroll
    for (int i = 0; i < S::kSums; ++i) sum[i / 4 / kPanels][i / 4 % kPanels][i % 4] = kNoSum;
    const int group = first + warp;
#pragma unroll
    for (int i = 0; i < kInt8GroupPieces; ++i) {
#pragma unroll
      for (int p = 0; p < kPanels; ++p) {
        const Piece input =
            load_piece(of.input, input_at[p], group * kInt8GroupPieces + i, of.pieces);
#pragma unroll
        for (int j = 0; j < 2 * kBands; ++j) {
          multiply_piece(sum[j % kBands][p], weights[i % S::kAhead][j % kBands * 2],
                         weights[i % S::kAhead][j % kBands * 2 + 1], input, j / kBands);
        }
      }
      // The next pieces are loaded while others are multiplied and sums are chained.
      const int next = i + S::kAhead;
      load_weights(i % S::kAhead, next < kInt8GroupPieces ? group : group + kFewWarps,
                   next % kInt8GroupPieces);
    }
#pragma unroll
    for (int i = 0; i < S::kSums; ++i) {
      sums[(warp * S::kSums + i) * kWarp + lane] = sum[i / 4 / kPanels][i / 4 % kPanels][i % 4];
    }
    __syncthreads();
    const int count = min_of(kFewWarps, of.groups - first);
#pragma unroll
    for (int i = 0; i < S::kChains; ++i) {
      const int chain = chain_of(i), row = row_of(chain);
      if (chain >= S::kSums * kWarp || row >= a.num_rows) continue;
      for (int g = 0; g < count; ++g) {
        totals[i] = fma_ftz(sum_of(sums[g * S::kSums * kWarp + chain]),
                            of.input_scale(first + g, row), totals[i]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < S::kChains; ++i) {
    const int chain = chain_of(i), row = row_of(chain), output = output_of(chain);
    if (chain >= S::kSums * kWarp || row >= a.num_rows || output >= a.outputs) continue;
    store_output<T>(a, row, output, mul_ftz(totals[i], of.weight_scale(output)));
  }
}

// Each warp has kBands bands of 16 rows and kPanels panels of 8 outputs; kDown warps have different
// rows, kAcross different outputs.
template <int kBands, int kPanels, int kDown, int kAcross>
struct Int8Tile {
  static constexpr int kThreads = kDown * kAcross * kWarp;
  static constexpr int kInputPanels = kDown * kBands * 2, kWeightPanels = kAcross * kPanels;
  static constexpr int kRows = kInputPanels * kInt8Rows, kOutputs = kWeightPanels * kInt8Rows;
  static constexpr int kStages = 3;
  static constexpr int kStagePieces = 2;  // of a panel
  static constexpr int kPanelVecs = kStagePieces * kWarp;
  static constexpr int kStageVecs = (kInputPanels + kWeightPanels) * kPanelVecs;
  static constexpr int kBytes = kStages * kStageVecs * 16;
  // Thread blocks of a multiprocessor, for which registers are left.
  static constexpr int kMinBlocks = kThreads > 128 ? 1 : 3;
  static constexpr int kPanelsAtOnce = kThreads / kPanelVecs;  // that all threads copy
  static constexpr int kInputCopies = kInputPanels / kPanelsAtOnce;
  static constexpr int kCopies = (kInputPanels + kWeightPanels) / kPanelsAtOnce;
  static_assert(kInputPanels % kPanelsAtOnce == 0 && kWeightPanels % kPanelsAtOnce == 0);
};

// The part of each stage that a thread copies: 16 bytes of some panels, panels of the input first.
template <class S>
struct StageCopies {
  const int8_t* from[S::kCopies];
  const int piece;  // of the stage
  const int pieces;

  __device__ StageCopies(const Int8Operands& of, int first_input, int first_weights)
      : piece(static_cast<int>(threadIdx.x) / kWarp % S::kStagePieces), pieces(of.pieces) {
    const int vec = static_cast<int>(threadIdx.x) % S::kPanelVecs * 16;
#pragma unroll
    for (int i = 0; i < S::kCopies; ++i) {
      const bool is_input = i < S::kInputCopies;
      const int first = is_input ? first_input : first_weights - S::kInputPanels;
      const int last = (is_input ? of.input_panels : of.weight_panels) - 1;
      // Beyond the last panel it copies the last one again; the result is not stored.
      const int64_t panel = min_of(
          first + i * S::kPanelsAtOnce + static_cast<int>(threadIdx.x) / S::kPanelVecs, last);
      from[i] = is_input ? of.input + panel * of.input_stride + vec
                         : of.weights + panel * of.weight_stride + vec;
    }
  }
  // Copies the next stage as a group, with zeros beyond the last piece. After the last stage the
  // group is empty.
  __device__ void copy(int stage, uint4* to) {
    if (stage * S::kStagePieces < pieces) {
      const bool valid = stage * S::kStagePieces + piece < pieces;
#pragma unroll
      for (int i = 0; i < S::kCopies; ++i) {
        copy_async(to + i * S::kThreads + threadIdx.x, from[i], valid);
        if (valid) from[i] += S::kStagePieces * kInt8PieceBytes;
      }
    }
    commit_copies();
  }
};

template <class T, int kBands, int kPanels, int kDown, int kAcross>
__global__ void __launch_bounds__(kDown* kAcross* kWarp,
                                  Int8Tile<kBands, kPanels, kDown, kAcross>::kMinBlocks)
    tile_kernel(const Int8ProductArgs a) {
  using S = Int8Tile<kBands, kPanels, kDown, kAcross>;
  const Int8Operands of(a);
  const int warp = static_cast<int>(threadIdx.x) / kWarp,
            lane = static_cast<int>(threadIdx.x) % kWarp;
  const int down = warp % kDown, across = warp / kDown;
  const int first_row = static_cast<int>(blockIdx.x) * S::kRows;
  const int first_output = static_cast<int>(blockIdx.y) * S::kOutputs;
  auto* const shared = reinterpret_cast<uint4*>(dynamic_shared());
  StageCopies<S> copies(of, first_row / kInt8Rows, first_output / kInt8Rows);
  // The lane's first row and output.
  const int row = first_row + down * kBands * 16 + lane / 4;
  const int output = first_output + across * kPanels * kInt8Rows + lane % 4 * 2;

  int32_t sum[kBands][kPanels][4];
  float total[kBands][kPanels][4] = {};
  const int num_stages = ceil_div(of.pieces, S::kStagePieces);
#pragma unroll
  for (int stage = 0; stage < S::kStages - 1; ++stage) {
    copies.copy(stage, shared + stage * S::kStageVecs);
  }
  for (int stage = 0; stage < num_stages; ++stage) {
    wait_for_copies<S::kStages - 2>();
    __syncthreads();
    // All threads are past the stage that it overwrites.
    const int next = stage + S::kStages - 1;
    copies.copy(next, shared + next % S::kStages * S::kStageVecs);
    constexpr int kOfGroup = kInt8GroupPieces / S::kStagePieces;
    if (stage % kOfGroup == 0) {
#pragma unroll
      for (int i = 0; i < kBands * kPanels * 4; ++i) {
        sum[i / 4 / kPanels][i / 4 % kPanels][i % 4] = kNoSum;
      }
    }
    const bool ends_group = (stage + 1) % kOfGroup == 0 || stage + 1 == num_stages;
    float scale[kBands][2] = {};
    if (ends_group) {
#pragma unroll
      for (int b = 0; b < kBands; ++b) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int of_row = row + b * 16 + i * 8;
          if (of_row < a.num_rows) scale[b][i] = of.input_scale(stage / kOfGroup, of_row);
        }
      }
    }
    const uint4* const vecs = shared + stage % S::kStages * S::kStageVecs + lane;
    const uint4* const left = vecs + down * kBands * 2 * S::kPanelVecs;
    const uint4* const right = vecs + (S::kInputPanels + across * kPanels) * S::kPanelVecs;
    const auto piece_at = [](const uint4* from) { return *reinterpret_cast<const Piece*>(from); };
#pragma unroll
    for (int k = 0; k < S::kStagePieces; ++k) {
      Piece input[kBands][2], weights[kPanels];
#pragma unroll
      for (int b = 0; b < 2 * kBands; ++b) {
        input[b / 2][b % 2] = piece_at(left + b * S::kPanelVecs + k * kWarp);
      }
#pragma unroll
      for (int p = 0; p < kPanels; ++p) {
        weights[p] = piece_at(right + p * S::kPanelVecs + k * kWarp);
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int b = 0; b < kBands; ++b) {
#pragma unroll
          for (int p = 0; p < kPanels; ++p) {
            multiply_piece(sum[b][p], input[b][0], input[b][1], weights[p], j);
          }
        }
      }
    }
    if (!ends_group) continue;
#pragma unroll
    for (int b = 0; b < kBands; ++b) {
#pragma unroll
      for (int p = 0; p < kPanels; ++p) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          total[b][p][i] = fma_ftz(sum_of(sum[b][p][i]), scale[b][i / 2], total[b][p][i]);
        }
      }
    }
  }
#pragma unroll
  for (int p = 0; p < kPanels; ++p) {
    const int of_output = output + p * kInt8Rows;
    if (of_output >= a.outputs) continue;
    const float first = of.weight_scale(of_output), second = of.weight_scale(of_output + 1);
#pragma unroll
    for (int b = 0; b < kBands; ++b) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int of_row = row + b * 16 + i * 8;
        if (of_row >= a.num_rows) continue;
        store_pair<T>(a, of_row, of_output, mul_ftz(total[b][p][2 * i], first),
                      mul_ftz(total[b][p][2 * i + 1], second));
      }
    }
  }
}

template <class T, int kBands, int kPanels>
void launch_few(const Int8ProductArgs& a, cudaStream_t stream) {
  using S = FewShape<kBands, kPanels>;
  const auto kernel = few_rows_kernel<T, kBands, kPanels>;
  const int64_t panels = int8_panels(a.outputs);
  const auto blocks = static_cast<unsigned>((panels + 2 * kBands - 1) / (2 * kBands));
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kBytes);
  launch_kernel(kernel, blocks, kFewThreads, S::kBytes, stream, a);
}

template <class S>
dim3 grid_of(const Int8ProductArgs& a) {
  return dim3(static_cast<unsigned>((a.num_rows + S::kRows - 1) / S::kRows),
              static_cast<unsigned>((a.outputs + S::kOutputs - 1) / S::kOutputs));
}
template <class T, int... kSizes>
void launch_tile(const Int8ProductArgs& a, cudaStream_t stream) {
  using S = Int8Tile<kSizes...>;
  const auto kernel = tile_kernel<T, kSizes...>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kBytes);
  launch_kernel(kernel, grid_of<S>(a), S::kThreads, S::kBytes, stream, a);
}

template <class T>
void launch_type(const Int8ProductArgs& a, cudaStream_t stream) {
  if (a.num_rows <= 8) return launch_few<T, 1, 1>(a, stream);
  if (a.num_rows <= 16) return launch_few<T, 1, 2>(a, stream);
  if (a.num_rows <= 32) return launch_few<T, 1, 4>(a, stream);
  if (a.num_rows <= kMaxFewRows) return launch_few<T, 2, 8>(a, stream);
  const dim3 large = grid_of<Int8Tile<4, 4, 2, 4>>(a);
  if (int64_t{large.x} * large.y >= 2 * int64_t{a.multiprocessors}) {
    launch_tile<T, 4, 4, 2, 4>(a, stream);
  } else {  // more blocks, so that there are some for each multiprocessor
    launch_tile<T, 2, 4, 2, 2>(a, stream);
  }
}

}  // namespace

void launch_int8_product(const Int8ProductArgs& args, cudaStream_t stream) {
  if (args.num_rows == 0 || args.outputs == 0) return;
  with_type(args.type, [&](auto zero) { launch_type<decltype(zero)>(args, stream); });
}

}  // namespace pagedinfer::kernels
