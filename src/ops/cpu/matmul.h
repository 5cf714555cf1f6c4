// y[m][n] = x[m] . w[n], weights in place as the file has them (row-major, one row per output).
#pragma once
#include "ops/cpu/kernels.h"
#include "ops/cpu/panel.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/tile.h"

namespace pagedinfer {
namespace {

// ---- bfloat16: the AMX order. Per 32 columns one fma chain from +0 over the even and one over the
// odd of them; their sum is added to the total. Columns beyond the last are +0 in both factors.

constexpr int kChunk = 128;     // columns of weights in a panel
constexpr int kRowBlock = 128;  // rows of x that a panel serves
constexpr int kAmxRows = kNativeLanes == 16 ? 4 : 2;
constexpr int kAmxVectors = kNativeLanes == 16 ? 2 : 1;
constexpr int kAmxColumns = 16 * kAmxVectors;
constexpr int kPanelSize = kChunk * 16;

// With products of bfloat16 numbers, which are exact in float32 unless they leave its range, an
// fma is a multiplication and an addition: that is what processors without fma use.
template <bool kExactProducts>
FORCE_INLINE f32x16 multiply_add(const f32x16& a, const f32x16& b, const f32x16& c) {
  if constexpr (kExactProducts && !kHardwareFma) return a * b + c;
  return fma(a, b, c);
}

template <bool kExactProducts, int kRows>
void amx_order_tile(const float* x, const float* panel, int columns, float* total) {
  for (int step = 0; step < columns; step += 32) {
    f32x16 even[kRows][kAmxVectors], odd[kRows][kAmxVectors];
    for (int m = 0; m < kRows; ++m) {
      for (int v = 0; v < kAmxVectors; ++v) even[m][v] = odd[m][v] = broadcast(0.0f);
    }
#pragma GCC unroll 2
    for (int k = step; k < step + 32; k += 2) {
      const float* w = panel + k * 16;
      for (int m = 0; m < kRows; ++m) {
        const f32x16 x0 = broadcast(x[m * kChunk + k]), x1 = broadcast(x[m * kChunk + k + 1]);
        for (int v = 0; v < kAmxVectors; ++v) {
          even[m][v] = multiply_add<kExactProducts>(x0, load(w + v * kPanelSize), even[m][v]);
          odd[m][v] = multiply_add<kExactProducts>(x1, load(w + v * kPanelSize + 16), odd[m][v]);
        }
      }
    }
    for (int m = 0; m < kRows; ++m) {
      for (int v = 0; v < kAmxVectors; ++v) {
        float* to = total + m * kAmxColumns + v * 16;
        store(to, load(to) + (even[m][v] + odd[m][v]));
      }
    }
  }
}

template <bool kExactProducts>
void amx_order_rows(const float* x, int rows, const float* panel, int columns, float* total) {
  int m = 0;
  for (; m + kAmxRows <= rows; m += kAmxRows) {
    amx_order_tile<kExactProducts, kAmxRows>(x + m * kChunk, panel, columns,
                                             total + m * kAmxColumns);
  }
  for (; m < rows; ++m) {
    amx_order_tile<kExactProducts, 1>(x + m * kChunk, panel, columns, total + m * kAmxColumns);
  }
}

struct Magnitudes {
  float smallest = __builtin_inff(), largest = 0;  // of the numbers that are not zero
};
Magnitudes magnitudes(const float* x, int64_t n) {
  f32x16 smallest = broadcast(__builtin_inff()), largest = broadcast(0.0f), zero = broadcast(0.0f);
  for (int64_t i = 0; i < n; i += 16) {
    const f32x16 size = bits_as<f32x16>(bits_as<i32x16>(load(x + i)) & broadcast(INT32_MAX));
    smallest = select((size > zero) & (size < smallest), size, smallest);
    largest = select(size < largest, largest, size);
  }
  return {-max_lane(zero - smallest), max_lane(largest)};
}
bool products_are_exact(Magnitudes a, Magnitudes b) {
  return a.smallest * b.smallest >= 0x1p-126f && a.largest * b.largest < 0x1p+127f;
}

// x as round_rows() leaves it: (ceil(k / 128), num_rows, 128). Outputs [first, last) are computed.
void matmul_bf16(const MatmulArgs& args, const float* packed_x, const bf16* weights) {
  alignas(64) float panels[kAmxVectors * kPanelSize];
  alignas(64) float total[kRowBlock * kAmxColumns];
  for (int row = 0; row < args.num_rows; row += kRowBlock) {
    const int rows = args.num_rows - row < kRowBlock ? args.num_rows - row : kRowBlock;
    for (int n = args.first; n < args.last; n += kAmxColumns) {
      memset(total, 0, sizeof total);
      for (int k = 0; k < args.k; k += kChunk) {
        const int left = args.k - k < kChunk ? args.k - k : kChunk;
        for (int v = 0; v < kAmxVectors; ++v) {
          const bf16 *from[16], *ahead[16];
          for (int lane = 0; lane < 16; ++lane) {  // lanes beyond the last output repeat it
            const int output = n + v * 16 + lane < args.last ? n + v * 16 + lane : args.last - 1;
            from[lane] = weights + int64_t(output) * args.k + k;
            ahead[lane] = from[lane] + kChunk;  // may lie beyond the end: never read
          }
          Fetcher<bf16> fetcher = {ahead, ahead + 16, kChunk};
          transpose_rows(from, left, panels + v * kPanelSize, fetcher);
        }
        const float* x = packed_x + (int64_t(k) * args.num_rows + int64_t(row) * kChunk);
        const int columns = (left + 31) / 32 * 32;
        static_assert(kHardwareFma || kAmxVectors == 1);
        if (!kHardwareFma && products_are_exact(magnitudes(x, int64_t(rows) * kChunk),
                                                magnitudes(panels, columns * 16))) {
          amx_order_rows<true>(x, rows, panels, columns, total);
        } else {
          amx_order_rows<false>(x, rows, panels, columns, total);
        }
      }
      const int outputs = args.last - n < kAmxColumns ? args.last - n : kAmxColumns;
      for (int m = 0; m < rows; ++m) {
        memcpy(args.y + int64_t(row + m) * args.n + n, total + m * kAmxColumns,
               outputs * sizeof(float));
      }
    }
  }
}

// Rounds x to bfloat16, kept as float32, in chunks of 128 columns with each chunk's rows together:
// rows at a power of two share one set of L1.
void round_rows(const float* x, int num_rows, int k, float* packed) {
  for (int start = 0; start < k; start += kChunk) {
    for (int m = 0; m < num_rows; ++m, packed += kChunk) {
      const int left = k - start < kChunk ? k - start : kChunk;
      bf16 rounded[kChunk] = {};
      to_bf16_row(x + int64_t(m) * k + start, rounded, left);
      for (int i = 0; i < kChunk; i += 16) store(packed + i, load_as_float(rounded + i));
    }
  }
}

// ---- float32 (and any weight type widened): sixteen interleaved fma chains over k from +0 (lane =
// k mod 16), the last vector padded with +0 in both factors, then the fixed tree.

template <class T>
void matmul_float(const MatmulArgs& args, const float* x, const T* weights) {
  in_tiles(args.num_rows, [&]<int kRows>(int m) {
    const auto tile = [&]<int kOutputs>(int n) {
      f32x16 sums[kRows * kOutputs];
      dot_tile<kRows, kOutputs>(x + int64_t(m) * args.k, weights + int64_t(n) * args.k, args.k,
                                sums);
      for (int i = 0; i < kRows * kOutputs; ++i) {
        args.y[int64_t(m + i / kOutputs) * args.n + n + i % kOutputs] = tree_sum(sums[i]);
      }
    };
    constexpr int kOutputs = kNativeLanes == 16 ? 4 : 2;
    int n = args.first;
    for (; n + kOutputs <= args.last; n += kOutputs) tile.template operator()<kOutputs>(n);
    for (; n < args.last; ++n) tile.template operator()<1>(n);
  });
}

}  // namespace
}  // namespace pagedinfer
