// The operations, compiled once per instruction set and reached through these tables only. All of
// them give the same bits (docs/numerics.md). They assume FlushDenormals on the calling thread.
//
// This header and everything that kernels.cpp includes share no inline function with the rest of
// the program: a linker may keep the copy of one instruction set for everybody.
#pragma once

#include <cstdint>

#include "ops/cpu/bf16.h"

namespace pagedinfer {

// The input x (num_rows, k) of products, put once into the order that their kernels read; threads
// share the rows out.
struct PackArgs {
  const float* x;
  int64_t stride;  // elements between rows
  int num_rows, k;
  int first_row, last_row;  // to be packed; first_row is a multiple of kPackedRows
  void* packed;             // room for packed_bytes(num_rows, k), 64-byte aligned
};
constexpr int kPackedRows = 16;

// Rows [first_row, last_row) and outputs [first, last) of y = x times the transpose of weights
// (any number, k). Nothing beyond the weights of those outputs is read.
struct MatmulArgs {
  const void* packed;  // x
  int num_rows, k;     // of x
  const void* weights;
  int64_t weight_stride;  // elements between rows
  float* y;
  int64_t y_stride;
  int first_row, last_row;  // first_row is a multiple of kPackedRows
  int first, last;
};

struct ProductKernels {
  void (*pack)(const PackArgs&);
  void (*multiply)(const MatmulArgs&);
};

// Query rows that share the keys of one KV head of one sequence. Position p lives in slot
// block_table[p / block_size] + p % block_size; kv_layout.h says where the slot lies.
struct AttentionRows {
  const float* q;        // (num_rows, head_dim), already times the softmax scale
  const int* positions;  // (num_rows), ascending; row r sees (positions[r] - window, positions[r]]
  int num_rows, head_dim, window;  // head_dim is a multiple of 16; window 0 = all
  const int* block_table;
  int block_size;
  int kv_head, kv_heads;
};

// Softmax in progress: the largest score, the sum of exp(score - largest), and that times V.
struct AttentionState {
  float *largest, *sum, *out;  // (num_rows), (num_rows), (num_rows, head_dim)
};

constexpr int kMaxAttentionRows = 64;  // in one call
constexpr int kMaxHeadDim = 256;
constexpr int kSegmentKeys = 256;

struct Kernels {
  const char* name;

  // Rows of n floats.
  void (*fma)(const float* a, const float* b, const float* c, float* y, int64_t n);
  void (*exp)(const float* x, float* y, int64_t n);
  void (*tanh)(const float* x, float* y, int64_t n);
  float (*sum)(const float* x, int64_t n);
  float (*largest)(const float* x, int64_t n);  // of the finite ones; -infinity if none is
  // y = exp((x - largest) / temperature), 0 where x is not finite
  void (*weights)(const float* x, float largest, float temperature, float* y, int64_t n);
  void (*add)(float* x, const float* y, int64_t n);                  // x += y
  void (*scale)(const float* x, float factor, float* y, int64_t n);  // y = x * factor
  void (*rms_norm)(const float* x, const float* weight, float offset, float epsilon, float* y,
                   int64_t n);
  void (*silu)(const float* x, const float* up, float* y, int64_t n);
  void (*gelu_tanh)(const float* x, const float* up, float* y, int64_t n);
  void (*rope)(float* x, const float* cos, const float* sin, int64_t half);
  void (*to_bf16)(const float* x, bf16* y, int64_t n);
  void (*from_bf16)(const bf16* x, float* y, int64_t n);
  void (*from_f16)(const f16* x, float* y, int64_t n);

  // Single numbers, in double inside.
  float (*log)(float x);
  float (*pow)(float base, float exponent);
  void (*rope_table)(int position, const float* inv_freq, int half, float* cos, float* sin);

  // Products of float32 numbers with weights of any type, and of numbers rounded to bfloat16.
  ProductKernels product_float_float, product_float_bf16, product_float_f16, product_bf16;

  // The state of one segment of keys alone; `k` and `v` are the whole layer's, as kv_layout.h says.
  // `is_first` tells that nothing has been asked of the memory: not true after the segment before.
  void (*attend_float)(const AttentionRows&, const float* k, const float* v, int segment,
                       bool is_first, AttentionState);
  void (*attend_bf16)(const AttentionRows&, const bf16* k, const bf16* v, int segment,
                      bool is_first, AttentionState);
  // total = total and then part; called in ascending order of segments.
  void (*combine)(AttentionState total, AttentionState part, int num_rows, int head_dim);
  void (*divide)(AttentionState total, int num_rows, int head_dim);  // out by sum
};

extern const Kernels kAvx512Kernels, kAvx2Kernels, kPortableKernels;

}  // namespace pagedinfer
