// Rotary position embedding. Bound by memory: launch_qkv() reads each number of q, k and v once
// from memory (a norm's second read hits the L1 or L2 cache) and writes it once.
#include "kernels/common.cuh"
#include "kernels/exact_math.h"
#include "kernels/int8.h"
#include "kernels/rope.h"

namespace pagedinfer::kernels {
namespace {

constexpr int kThreads = 128;

__global__ void rope_table_kernel(const RopeTableArgs a) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= a.num_rows * a.half) return;
  const int64_t row = index / a.half;
  const int i = static_cast<int>(index % a.half);
  const CosSin value = cos_sin(mul_rn(static_cast<float>(a.positions[row]), a.inv_freq[i]));
  float scale = a.scale;
  if (a.factors != nullptr) {
    const int factor = a.positions[row] / a.positions_per_factor;
    scale = mul_rn(scale, a.factors[factor < a.num_factors ? factor : a.num_factors - 1]);
  }
  float* const to = a.out + row * a.out_stride;
  to[i] = mul_rn(value.cos, scale);
  to[i + a.half] = mul_rn(value.sin, scale);
}

// Rotates the pairs (low[j], high[j]) by the angles whose cosines begin at `cos` and whose sines
// begin at cos + half.
template <int kVec>
__device__ void rotate(float (&low)[kVec], float (&high)[kVec], const float* cos, int half) {
  const auto cosines = load_f32<kVec>(cos), sines = load_f32<kVec>(cos + half);
#pragma unroll
  for (int j = 0; j < kVec; ++j) {
    const float a = low[j], b = high[j], c = cosines.at[j], s = sines.at[j];
    low[j] = sub_rn(mul_rn(a, c), mul_rn(b, s));
    high[j] = add_rn(mul_rn(b, c), mul_rn(a, s));
  }
}

template <class T, int kVec>
__device__ void load_floats(float (&to)[kVec], const T* from) {
  const auto x = load_vec<kVec>(from);
#pragma unroll
  for (int j = 0; j < kVec; ++j) to[j] = to_float(x.at[j]);
}
template <class T, int kVec>
__device__ void store_floats(T* to, const float (&from)[kVec]) {
  Vec<T, kVec> x;
#pragma unroll
  for (int j = 0; j < kVec; ++j) x.at[j] = from_float<T>(from[j]);
  store_vec(to, x);
}

template <class T, int kVec>
__global__ void __launch_bounds__(kThreads) rope_kernel(const RopeArgs a) {
  const int64_t row = blockIdx.x;
  const int vecs = a.half / kVec;
  const float* const cos = a.table + row * a.table_stride;
  T* const x = static_cast<T*>(a.x.data) + row * a.x.stride;
  for (int i = threadIdx.x; i < a.heads * vecs; i += kThreads) {
    const int column = i % vecs * kVec;
    T* const low = x + int64_t{i / vecs} * a.head_dim + column;
    float first[kVec], second[kVec];
    load_floats(first, low);
    load_floats(second, low + a.half);
    rotate(first, second, cos + column, a.half);
    store_floats(low, first);
    store_floats(low + a.half, second);
  }
}

// Stores numbers of a row of int8.
template <int kVec>
__device__ void store_int8(int8_t* to, const float (&from)[kVec], float scale) {
  Vec<int8_t, kVec> x;
#pragma unroll
  for (int j = 0; j < kVec; ++j) x.at[j] = to_int8(from[j], scale);
  store_vec(to, x);
}

// The elements of a head in pairs. The elements of pair i < half are rotated together; all others
// do not change. Both kinds are adjacent vectors in `low` and in `high`.
struct HeadPairs {
  int dim, half;

  __device__ int low(int i) const { return i < half ? i : half + i; }
  __device__ int high(int i) const { return low(i) + (i < half ? half : dim / 2 - half); }
};

// Each group of `lanes` neighbouring lanes (a power of two) computes one head of q, k or v.
template <class T, int kVec, bool kInt8>
__global__ void __launch_bounds__(kThreads) qkv_kernel(const QkvArgs a, int lanes) {
  const int q_heads = a.q.data == nullptr ? 0 : a.heads, kv_heads = a.cache.kv_heads;
  const int heads = q_heads + 2 * kv_heads;
  const int64_t index = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / lanes;
  const int lane = threadIdx.x % lanes;
  const bool valid =
      index < a.num_rows * heads;  // no early return: all lanes take part in the shuffles
  const int64_t row = valid ? index / heads : 0;
  const int head = valid ? static_cast<int>(index % heads) : 0;
  const bool is_q = head < q_heads, is_v = head >= q_heads + kv_heads;
  const int own = is_q ? head : is_v ? head - q_heads - kv_heads : head - q_heads;
  const int dim = a.cache.head_dim, half = dim / 2;
  const float* const table = is_v ? nullptr : is_q ? a.q_table : a.k_table;
  const HeadPairs pairs = {dim, a.k_table == nullptr ? half : a.half};

  const Matrix& matrix = is_q ? a.q : is_v ? a.v : a.k;
  T* const x = static_cast<T*>(matrix.data) + row * matrix.stride + int64_t{own} * dim;
  // Where k or v goes in the cache, in elements.
  const int slot = valid && !is_q ? a.slot_mapping[row] : -1;
  const int64_t in_cache =
      kv_offset(own, slot, a.cache.num_positions, kv_row_elements(dim, kInt8 ? 1 : sizeof(T)));
  void* const cache = is_v ? a.cache.v : a.cache.k;
  const bool is_stored = valid && (is_q || slot >= 0);
  const float* const weight = is_v ? nullptr : is_q ? a.q_weight : a.k_weight;
  const float* const cos = table == nullptr ? nullptr : table + row * a.table_stride;

  float low[kVec], high[kVec], sum = 0.0f;
  if (valid && weight != nullptr) {
    for (int i = lane * kVec; i < half; i += lanes * kVec) {
      load_floats(low, x + pairs.low(i));
      load_floats(high, x + pairs.high(i));
#pragma unroll
      for (int j = 0; j < kVec; ++j) sum += low[j] * low[j] + high[j] * high[j];
    }
  }
  for (int offset = lanes / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  const float norm_scale = 1.0f / sqrtf(sum / float(dim) + a.eps);
  // Leaves the numbers of the pairs i .. i + kVec - 1 in `low` and `high`.
  const auto compute = [&](int i) {
    const int at_low = pairs.low(i), at_high = pairs.high(i);
    load_floats(low, x + at_low);
    load_floats(high, x + at_high);
    if (weight != nullptr) {
      const auto first = load_f32<kVec>(weight + at_low);
      const auto second = load_f32<kVec>(weight + at_high);
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        low[j] = low[j] * norm_scale * (first.at[j] + a.offset);
        high[j] = high[j] * norm_scale * (second.at[j] + a.offset);
      }
    }
    if (a.limit > 0.0f) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        low[j] = limited(low[j], a.limit);
        high[j] = limited(high[j], a.limit);
      }
    }
    if (cos != nullptr && i < pairs.half) rotate(low, high, cos + i, pairs.half);
  };

  float scale = 1.0f;
  if constexpr (kInt8) {
    uint32_t largest = 0;
    const auto take = [&](uint32_t magnitude) {
      if (magnitude > largest) largest = magnitude;
    };
    if (is_stored && !is_q) {
#pragma unroll 1
      for (int i = lane * kVec; i < half; i += lanes * kVec) {
        compute(i);
#pragma unroll
        for (int j = 0; j < kVec; ++j) {
          take(magnitude_of(low[j]));
          take(magnitude_of(high[j]));
        }
      }
    }
    for (int offset = lanes / 2; offset > 0; offset /= 2) {
      take(__shfl_xor_sync(~0u, largest, offset));
    }
    scale = int8_scale(largest);
    if (is_stored && !is_q && lane == 0) {
      (is_v ? a.cache.v_scale : a.cache.k_scale)[kv_offset(own, slot, a.cache.num_positions, 1)] =
          scale;
    }
  }
  if (!is_stored) return;
#pragma unroll 1
  for (int i = lane * kVec; i < half; i += lanes * kVec) {
    compute(i);
    if (kInt8 && !is_q) {
      int8_t* const to = static_cast<int8_t*>(cache) + in_cache;
      store_int8(to + pairs.low(i), low, scale);
      store_int8(to + pairs.high(i), high, scale);
    } else {
      T* const to = is_q ? x : static_cast<T*>(cache) + in_cache;
      store_floats(to + pairs.low(i), low);
      store_floats(to + pairs.high(i), high);
    }
  }
}

int lanes_for(int vecs) {
  int lanes = 1;
  while (lanes < vecs && lanes < kWarp) lanes *= 2;
  return lanes;
}

bool table_fits(const float* table, int64_t stride) {
  return is_aligned(table) && (table == nullptr || stride % 4 == 0);
}

unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

}  // namespace

void launch_rope_table(const RopeTableArgs& args, cudaStream_t stream) {
  if (args.num_rows == 0 || args.half == 0) return;
  launch_kernel(rope_table_kernel, blocks_for(args.num_rows * args.half), kThreads, 0, stream,
                args);
}

void launch_rope(const RopeArgs& args, cudaStream_t stream) {
  if (args.num_rows == 0) return;
  const unsigned grid = static_cast<unsigned>(args.num_rows);
  with_type(args.type, [&](auto zero) {
    using T = decltype(zero);
    if (in_vectors(args.type, args.x, args.half) && in_vectors(args.type, args.x, args.head_dim) &&
        table_fits(args.table, args.table_stride)) {
      launch_kernel(rope_kernel<T, kVecElements<T>>, grid, kThreads, 0, stream, args);
    } else {
      launch_kernel(rope_kernel<T, 1>, grid, kThreads, 0, stream, args);
    }
  });
}

void launch_qkv(const QkvArgs& args, cudaStream_t stream) {
  if (args.num_rows == 0) return;
  const int half = args.cache.head_dim / 2;  // pairs of a head
  const int rotated = args.k_table == nullptr ? half : args.half;
  const int64_t heads = (args.q.data == nullptr ? 0 : args.heads) + 2 * args.cache.kv_heads;
  const bool vectors = (args.q.data == nullptr || in_vectors(args.type, args.q, half)) &&
                       in_vectors(args.type, args.k, half) && in_vectors(args.type, args.v, half) &&
                       in_vectors(args.type, args.k, rotated) &&
                       table_fits(args.q_table, args.table_stride) &&
                       table_fits(args.k_table, args.table_stride) && is_aligned(args.q_weight) &&
                       is_aligned(args.k_weight);
  with_type(args.type, [&](auto zero) {
    using T = decltype(zero);
    const int lanes = lanes_for(vectors ? half / kVecElements<T> : half);
    const unsigned grid = blocks_for(args.num_rows * heads * lanes);
    const auto launch = [&](auto kernel) {
      launch_kernel(kernel, grid, kThreads, 0, stream, args, lanes);
    };
    if (args.cache.is_int8()) {
      vectors ? launch(qkv_kernel<T, kVecElements<T>, true>) : launch(qkv_kernel<T, 1, true>);
    } else {
      vectors ? launch(qkv_kernel<T, kVecElements<T>, false>) : launch(qkv_kernel<T, 1, false>);
    }
  });
}

}  // namespace pagedinfer::kernels
