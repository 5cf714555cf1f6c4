// The CPU's operations, compiled once per instruction set and called through these tables only. All
// tables give the same bits (docs/numerics.md). REQUIRES: FlushDenormals on the calling thread.
//
// This header and everything that kernels.cpp includes must not share inline functions with the
// rest of the program: the linker would keep one copy, perhaps one for an instruction set that the
// processor lacks.
#pragma once

#include <cstdint>

#include "core/cpu_isa.h"
#include "ops/cpu/bf16.h"
#include "ops/cpu/tuning.h"

namespace pagedinfer {

// Packs a part of the input x (num_rows, k) of products into the order in which their kernels read
// it. Threads pack different parts.
struct PackArgs {
  const float* x;  // of first_row and first_column
  int64_t stride;  // elements between rows
  int num_rows, k;
  int first_row, last_row;  // rows [first_row, last_row); first_row is a multiple of kPackedRows
  // Multiples of 128, for products in int8 of 256 and in float32 of 512; but the last one may be k.
  int first_column, last_column;
  void* packed;  // room for packed_bytes(num_rows, k), 64-byte aligned
  // For products with codes of 4 bits, if their columns have an order: the i-th packed number of a
  // row is x[order[i]]. REQUIRES: first_column is 0.
  const int32_t* order = nullptr;
};
constexpr int kPackedRows = 16;

// Row i of the packed input `gathered` becomes row numbers[i] / divisor of another one, for each i
// from `first` to `last`.
struct GatherArgs {
  const void* packed;
  int num_rows, k;
  const int32_t* numbers;
  int64_t divisor;
  void* gathered;
  int num_gathered, first, last;
};

// Computes rows [first_row, last_row) and outputs [first, last) of y = x * weights^T; weights are
// (outputs, k). Reads no weights but those of these outputs. Weights in int8 lie in panels
// (int8_layout.h), of which `first` begins one, and packed ones in bfloat16 (bf16_layout.h) and
// codes of 4 bits (int4_layout.h) do so too.
struct MatmulArgs {
  const void* packed;  // x
  int num_rows, k;     // of x
  const void* weights;
  int64_t weight_stride;  // elements between rows or panels
  float* y;
  int64_t y_stride;
  int first_row, last_row;  // first_row is a multiple of kPackedRows
  int first, last;
  const void* after = nullptr;  // weights that the thread reads next: their beginning is prefetched
  Tuning tuning = {};
  void* scratch = nullptr;  // AMX: kMultiplyScratch bytes of the calling thread, 64-byte aligned
  bool streams_y = false;   // y will not be read soon, so it may be written past the caches
};
// The sums of 256 rows and 2048 outputs, and some more.
constexpr int64_t kMultiplyScratch = (256 * 2048 + 1024) * 4;

struct ProductKernels {
  void (*pack)(const PackArgs&);
  void (*multiply)(const MatmulArgs&);
  // Multiplies and adds `numbers` in the registers in so many rounds, as `multiply` does, and
  // returns how many operations these were: the peak of the processor. `numbers`: kBareBytes,
  // bfloat16 from -1 to 1, which are float32 from -1 to 1 too, or int8.
  double (*bare)(const void* numbers, int rounds);
  // Null: rows are packed anew where they are needed in another order.
  void (*gather)(const GatherArgs&) = nullptr;
};
constexpr int kBareBytes = 4096;

// The first keys that a thread reads after a call, at most kMaxKeysAfter of a sequence and a head.
// None if begin = end.
struct KeysAfter {
  const int* block_table = nullptr;
  int kv_head = 0, begin = 0, end = 0;
};
constexpr int kMaxKeysAfter = 128;

// Query rows of one sequence and one KV head. The key of position p is in slot
// block_table[p / block_size] + p % block_size of the cache (kv_layout.h).
struct AttentionRows {
  const float* q;        // (num_rows, head_dim), as AttentionKernels::prepare() gives it
  const int* positions;  // (num_rows), ascending; row r sees (positions[r] - window, positions[r]]
  int num_rows, head_dim, window;  // head_dim is a multiple of 16; window 0 = all
  const int* block_table;
  int block_size;
  int kv_head, kv_heads;
  const float *k_scale, *v_scale;  // of the rows of an int8 cache, in their order; else null
  float softcap;                   // a score becomes softcap * tanh(score / softcap); 0: it stays
  float* scratch;                  // kAttentionScratch numbers, which a small stack has no room for
  KeysAfter after;
};

// The state of a softmax over part of the keys: the largest score, the sum of exp(score - largest),
// and the sum of exp(score - largest) * value.
struct AttentionState {
  float *largest, *sum, *out;  // (num_rows), (num_rows), (num_rows, head_dim)
};

constexpr int kMaxAttentionRows = 256;  // in one call
constexpr int kSharedRows = 8;          // at most, of items whose segments several tasks compute
constexpr int kMaxHeadDim = 256;
constexpr int kSegmentKeys = 256;
constexpr int kValueKeys = 64;  // whose values are widened and added together
constexpr int kAttentionScores = kMaxAttentionRows * kSegmentKeys;  // of a segment
// The scores, widened keys or values, and the state of a segment.
constexpr int kAttentionScratch =
    kAttentionScores + kValueKeys * kMaxHeadDim + kMaxAttentionRows * (kMaxHeadDim + 2);
static inline AttentionState part_state(float* scratch) {
  float* const out = scratch + kAttentionScores + kValueKeys * kMaxHeadDim;
  float* const largest = out + kMaxAttentionRows * kMaxHeadDim;
  return {largest, largest + kMaxAttentionRows, out};
}

// Segments [first, end) of a context.
struct Segments {
  int first, end;
  bool continues;  // the call before was for the segments before these and prefetched their keys
};

// Attention over a cache of one type, in the order of its definition (docs/numerics.md).
struct AttentionKernels {
  // What AttentionRows::q has of a row: in bfloat16 it is times log2(e) if there is no cap, and
  // rounded.
  void (*prepare)(const float* q, float scale, float softcap, float* to, int64_t n);
  // Computes the state of segments, combined in ascending order. `k` and `v` are the cache of the
  // whole layer (kv_layout.h). The state has room for the next multiple of 32 rows
  // if there are more than kSharedRows.
  void (*attend)(const AttentionRows&, const void* k, const void* v, const Segments&,
                 AttentionState);
  // Adds the state `part` to `total`. Call in ascending order of segments.
  void (*combine)(AttentionState total, AttentionState part, int num_rows, int head_dim);
  // Adds a key of score sinks[row], whose value is 0.
  void (*add_sinks)(AttentionState total, const float* sinks, int num_rows, int head_dim);
  void (*divide)(AttentionState total, int num_rows, int head_dim);  // out = out / sum
};

struct Kernels {
  const char* name;

  // Operations on rows of n numbers.
  void (*fma)(const float* a, const float* b, const float* c, float* y, int64_t n);
  void (*exp)(const float* x, float* y, int64_t n);
  void (*tanh)(const float* x, float* y, int64_t n);
  float (*sum)(const float* x, int64_t n);
  float (*largest)(const float* x, int64_t n);  // of the finite numbers; -infinity if there is none
  // y = exp((x - largest) / temperature), 0 where x is not finite
  void (*weights)(const float* x, float largest, float temperature, float* y, int64_t n);
  void (*add)(float* x, const float* y, int64_t n);                       // x += y
  void (*add_scaled)(float* x, const float* y, float factor, int64_t n);  // x = fma(factor, y, x)
  void (*scale)(const float* x, float factor, float* y, int64_t n);       // y = x * factor
  void (*softcap)(float* x, float cap, int64_t n);                        // x = cap * tanh(x / cap)
  // y += scale * s; s is the sum of factors[k] * a[k * stride + i] for k = 0, 1, ... below rank.
  void (*add_low_rank)(const float* factors, const float* a, int64_t stride, int64_t rank,
                       float scale, float* y, int64_t n);
  void (*rms_norm)(const float* x, const float* weight, float offset, float epsilon, float* y,
                   int64_t n);
  void (*silu)(const float* x, const float* up, float* y, int64_t n);
  void (*gelu_tanh)(const float* x, const float* up, float* y, int64_t n);
  void (*clamped_swish)(const float* x, const float* up, float alpha, float limit, float* y,
                        int64_t n);
  void (*limit)(float* x, float limit, int64_t n);
  void (*rope)(float* x, const float* cos, const float* sin, int64_t half);
  void (*to_bf16)(const float* x, bf16* y, int64_t n);
  void (*from_bf16)(const bf16* x, float* y, int64_t n);
  void (*from_f16)(const f16* x, float* y, int64_t n);
  void (*from_int8)(const int8_t* x, float* y, int64_t n);
  // Of rows that are stored. to_f16: what float16 has no finite number for becomes NaN.
  // to_int8 returns the scale: x is about y * scale, or scale is NaN if an x is not finite.
  void (*to_f16)(const float* x, f16* y, int64_t n);
  float (*to_int8)(const float* x, int8_t* y, int64_t n);

  // Reads memory and does no more with it than it must: to measure the speed of reading.
  void (*read)(const char* from, int64_t bytes);

  // Cosines and sines of position * inv_freq, computed in double, times `scale`.
  void (*rope_table)(int position, const float* inv_freq, int half, float scale, float* cos,
                     float* sin);

  // Products of float32 numbers with weights of any type, of numbers rounded to bfloat16, and of
  // numbers that become int8.
  ProductKernels product_float_float, product_float_bf16, product_float_f16, product_bf16,
      product_bf16_panels, product_bf16_panels_tall, product_int8, product_int4;
  // Writes 16 rows of `columns` int8 numbers, a multiple of 64, to the outputs of a panel from
  // `panel` on (int8_layout.h). `stride`: between rows.
  // `zero` is added to each number.
  void (*interleave_int8)(const int8_t* rows, int64_t stride, int64_t columns, uint8_t zero,
                          uint8_t* panel);
  // The same of 16 rows of 32 bfloat16 numbers (bf16_layout.h), past the caches: other threads see
  // them after _mm_sfence().
  void (*interleave_bf16)(const bf16* rows, int64_t stride, bf16* panel);

  AttentionKernels attention_float, attention_bf16, attention_f16, attention_int8;
};

extern const Kernels kAvx512Kernels, kAvx2Kernels, kPortableKernels;
// For processors with AMX or AVX-512 VNNI, the bits of product_bf16, product_int8 and product_int4;
// on AMX weights in int8 have a sign.
extern const ProductKernels kAmxProduct, kAmxPanelProduct, kAmxInt8Product, kVnniProduct;
extern const ProductKernels kAmxInt4Product, kVnniInt4Product;
// AttentionKernels::attend() of attention_bf16 for processors with AMX.
void attend_on_tiles(const AttentionRows&, const void* k, const void* v, const Segments&,
                     AttentionState);

// The kernels of an instruction set. AMX has products and an attention of its own, the rest is
// AVX-512's.
const Kernels& kernels_of(CpuIsa isa);

// The product in int8 of an instruction set: of the fastest kind that this processor has.
// REQUIRES: isa is among available_isas().
const ProductKernels& int8_product_of(CpuIsa isa);
const ProductKernels& int4_product_of(CpuIsa isa);  // the same with codes of 4 bits
bool has_vnni();                                    // of AVX-512

}  // namespace pagedinfer
