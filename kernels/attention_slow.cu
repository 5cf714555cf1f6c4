// Attention for any head size and type, with one thread block per token and query head. All
// arithmetic is float32 and follows the CPU backend operation by operation. For parity tests and
// unusual models: it reads the keys again for every query head.
#include "kernels/attention_launch.h"
#include "kernels/common.cuh"

namespace pagedinfer::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kLanes = 16;  // partial sums of the weights: lane = key mod 16

// T is the type of q and the output, Stored that of the cache.
template <class T, class Stored>
__global__ void __launch_bounds__(kThreads) slow_attention_kernel(const AttentionArgs a) {
  constexpr bool kInt8 = std::is_same_v<Stored, int8_t>;
  const int token = blockIdx.x, head = blockIdx.y, dim = a.cache.head_dim;
  float* const q = reinterpret_cast<float*>(dynamic_shared());  // (dim), already scaled
  float* const total = q + dim;                                 // (dim)
  __shared__ float p[kSegmentKeys];
  __shared__ float reduced[kThreads / kWarp];
  __shared__ float segment_sum;

  const int seq = sequence_of(a.query_starts, a.num_seqs, token);
  const int32_t* const block_row = a.block_table + int64_t(seq) * a.max_blocks;
  const BlockDivisor divisor = block_divisor(a.block_size);
  const int kv_head = head / (a.heads / a.cache.kv_heads);
  const Stored* const k = static_cast<const Stored*>(a.cache.k);
  const Stored* const v = static_cast<const Stored*>(a.cache.v);
  const auto row_of = [&](int key) {
    return kv_offset(kv_head, cache_position(block_row, divisor, key), a.cache.num_positions, 1);
  };
  const auto offset = [&](int key) { return row_of(key) * kv_row_elements(dim, sizeof(Stored)); };
  const T* const from = static_cast<const T*>(a.q.data) + token * a.q.stride + int64_t{head} * dim;
  for (int d = threadIdx.x; d < dim; d += kThreads) {
    q[d] = mul_rn(to_float(from[d]), a.scale);
    total[d] = 0.0f;
  }

  AttentionState state = {-__builtin_huge_valf(), 0.0f};
  const int position = a.positions[token];
  const KeyRange visible = visible_keys(position, position, a.window);
  for (int s = visible.begin / kSegmentKeys; s * kSegmentKeys < visible.end; ++s) {
    const KeyRange keys = keys_of_segment(visible, s);
    __syncthreads();  // q is written; p is no longer read
    float largest = -__builtin_huge_valf();
    for (int i = threadIdx.x; i < kSegmentKeys; i += kThreads) {
      const int key = s * kSegmentKeys + i;
      float score = -__builtin_huge_valf();
      if (key >= keys.begin && key < keys.end) {
        const Stored* const row_of_k = k + offset(key);
        score = 0.0f;
        for (int d = 0; d < dim; ++d) score = __fmaf_rn(q[d], to_float(row_of_k[d]), score);
        if (kInt8) score = mul_rn(score, a.cache.k_scale[row_of(key)]);
        if (a.softcap > 0) score = softcap(score, a.softcap);
      }
      p[i] = score;
      largest = fmaxf(largest, score);
    }
    largest = lane_max(largest);
    if (threadIdx.x % kWarp == 0) reduced[threadIdx.x / kWarp] = largest;
    __syncthreads();
    for (float other : reduced) largest = fmaxf(largest, other);
    for (int i = threadIdx.x; i < kSegmentKeys; i += kThreads) {
      p[i] = exact_exp(sub_rn(p[i], largest));
    }
    __syncthreads();
    if (threadIdx.x < kWarp) {
      float sum = 0.0f;
      for (int i = threadIdx.x % kLanes; i < kSegmentKeys; i += kLanes) sum = add_rn(sum, p[i]);
      for (int width = kLanes / 2; width > 0; width /= 2) {
        sum = add_rn(sum, __shfl_down_sync(~0u, sum, width));
      }
      if (threadIdx.x == 0) segment_sum = sum;
    }
    __syncthreads();
    if (kInt8) {
      for (int key = keys.begin + threadIdx.x; key < keys.end; key += kThreads) {
        float& x = p[key - s * kSegmentKeys];
        x = mul_rn(x, a.cache.v_scale[row_of(key)]);
      }
      __syncthreads();
    }
    const CombineScales scales = combine(state, {largest, segment_sum}, exact_exp);
    for (int d = threadIdx.x; d < dim; d += kThreads) {
      float out = 0.0f;
      for (int key = keys.begin; key < keys.end; ++key) {
        out = __fmaf_rn(p[key - s * kSegmentKeys], to_float(v[offset(key) + d]), out);
      }
      total[d] = combined(total[d], out, scales);
    }
  }
  if (a.sinks != nullptr) {
    const CombineScales scales = combine(state, {a.sinks[head], 1.0f}, exact_exp);
    for (int d = threadIdx.x; d < dim; d += kThreads) total[d] = combined(total[d], 0.0f, scales);
  }
  T* const to = static_cast<T*>(a.out.data) + token * a.out.stride + int64_t{head} * dim;
  for (int d = threadIdx.x; d < dim; d += kThreads) {
    to[d] = from_float<T>(normalized(total[d], state.sum));
  }
}

}  // namespace

void launch_slow_attention(const AttentionArgs& args, cudaStream_t stream) {
  const dim3 grid(args.num_tokens, args.heads);
  const int bytes = 2 * args.cache.head_dim * int(sizeof(float));
  with_type(args.type, [&](auto zero) {
    using T = decltype(zero);
    const auto kernel =
        args.cache.is_int8() ? slow_attention_kernel<T, int8_t> : slow_attention_kernel<T, T>;
    launch_kernel(kernel, grid, kThreads, bytes, stream, args);
  });
}

}  // namespace pagedinfer::kernels
