// A thread block chooses the experts of a row. It is bound by reading the router, which the L2
// cache has for all rows but the first. A thread ranks an expert by comparing it with all others.
// Another block finds the choices of an expert: it reads all of them twice.
#include "kernels/common.cuh"
#include "kernels/exact_math.h"
#include "kernels/expert_choice.h"

namespace pagedinfer::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kLanes = 16;  // partial sums: lane = index mod 16
constexpr int kWarps = kThreads / kWarp;

// The sum over the lanes of a group, in its first lane.
__device__ float tree_sum(float x) {
#pragma unroll
  for (int width = kLanes / 2; width > 0; width /= 2) {
    x = add_rn(x, __shfl_down_sync(~0u, x, width, kLanes));
  }
  return x;
}

template <class T>
__global__ void __launch_bounds__(kThreads) route_kernel(const RouteArgs a) {
  const int64_t row = blockIdx.x;
  const T* const x = static_cast<const T*>(a.x.data) + row * a.x.stride;
  const int tid = static_cast<int>(threadIdx.x), lane = tid % kLanes;
  float* const logits = reinterpret_cast<float*>(dynamic_shared());  // (experts)
  // The compiler reads the last four logits as 16 bytes, which may reach into the next array. So
  // that is one that no thread writes meanwhile.
  float* const powers = logits + a.experts;
  int* const is_chosen = reinterpret_cast<int*>(powers + a.experts);
  __shared__ float shared_logit, largest, sum_of_powers;

  const int products = a.experts + (a.shared_gate != nullptr);
  for (int first = 0; first < products; first += kThreads / kLanes) {
    const int e = first + tid / kLanes;
    float sum = 0.0f;
    if (e < products) {
      const float* const weight =
          e < a.experts ? static_cast<const float*>(a.router.data) + e * a.router.stride
                        : a.shared_gate;
      for (int64_t i = lane; i < a.cols; i += kLanes) sum = fma_ftz(to_float(x[i]), weight[i], sum);
    }
    sum = tree_sum(sum);
    if (lane != 0 || e >= products) continue;
    if (e == a.experts) {
      shared_logit = sum;
    } else {
      logits[e] = a.bias == nullptr ? sum : add_rn(sum, a.bias[e]);
    }
  }
  __syncthreads();

  // A NaN ranks as -infinity.
  const auto rank_of = [&](int e) {
    const float logit = logits[e];
    return logit != logit ? -__builtin_huge_valf() : logit;
  };
  for (int e = tid; e < a.experts; e += kThreads) {
    const float own = rank_of(e);
    int before = 0;
    for (int other = 0; other < a.experts; ++other) {
      const float x = rank_of(other);
      before += x > own || (x == own && other < e);
    }
    is_chosen[e] = before < a.per_row;
    if (before == 0) largest = logits[e];
  }
  __syncthreads();

  const auto offset_of = [&](int e) {
    int offset = 0;
    for (int other = 0; other < e; ++other) offset += is_chosen[other];
    return offset;
  };
  for (int e = tid; e < a.experts; e += kThreads) {
    if (a.normalizes_chosen && !is_chosen[e]) continue;
    powers[a.normalizes_chosen ? offset_of(e) : e] = exact_exp(sub_rn(logits[e], largest));
  }
  __syncthreads();
  if (tid < kWarp) {
    const int count = a.normalizes_chosen ? a.per_row : a.experts;
    float sum = 0.0f;
    for (int i = lane; i < count; i += kLanes) sum = add_rn(sum, powers[i]);
    sum = tree_sum(sum);
    if (tid == 0) sum_of_powers = sum;
  }
  __syncthreads();

  const int64_t first = row * (a.per_row + a.has_shared);
  for (int e = tid; e < a.experts; e += kThreads) {
    if (!is_chosen[e]) continue;
    const int offset = offset_of(e);
    a.chosen[first + offset] = e;
    // The product flushes a denormal quotient.
    a.weights[first + offset] =
        mul_ftz(div_rn(powers[a.normalizes_chosen ? offset : e], sum_of_powers), 1.0f);
  }
  if (!a.has_shared || tid != 0) return;
  a.chosen[first + a.per_row] = a.experts;
  a.weights[first + a.per_row] =
      a.shared_gate == nullptr ? 1.0f
                               : div_rn(1.0f, add_rn(1.0f, exact_exp(sub_rn(0.0f, shared_logit))));
}

__global__ void __launch_bounds__(kThreads) group_by_expert_kernel(const GroupByExpertArgs a) {
  const int expert = static_cast<int>(blockIdx.x);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  // Each warp has a part of the list.
  const int part = ceil_div(ceil_div(a.num_choices, kWarps), kWarp) * kWarp;
  const int begin = warp * part, end = min_of(begin + part, a.num_choices);
  __shared__ int less[kWarps], equal[kWarps];
  const auto chosen_at = [&](int i) { return i < end ? a.chosen[i] : a.experts; };
  int num_less = 0, num_equal = 0;
  for (int i = begin + lane; i - lane < end; i += kWarp) {
    const int chosen = chosen_at(i);
    num_less += __popc(__ballot_sync(~0u, chosen < expert));
    num_equal += __popc(__ballot_sync(~0u, chosen == expert));
  }
  if (lane == 0) less[warp] = num_less, equal[warp] = num_equal;
  __syncthreads();
  int start = 0;
  for (int w = 0; w < kWarps; ++w) start += less[w];
  if (threadIdx.x == 0) {
    a.starts[expert] = start;
    if (expert + 1 == a.experts) a.starts[a.experts] = a.num_choices;
  }
  for (int w = 0; w < warp; ++w) start += equal[w];
  for (int i = begin + lane; i - lane < end; i += kWarp) {
    const bool is_own = chosen_at(i) == expert;
    const unsigned own = __ballot_sync(~0u, is_own);
    if (is_own) a.numbers[start + __popc(own & ((1u << lane) - 1))] = i;
    start += __popc(own);
  }
}

}  // namespace

void launch_route(const RouteArgs& args, cudaStream_t stream) {
  if (args.num_rows == 0) return;
  const int bytes = 3 * args.experts * int(sizeof(float));
  with_type(args.type, [&](auto zero) {
    launch_kernel(route_kernel<decltype(zero)>, static_cast<unsigned>(args.num_rows), kThreads,
                  bytes, stream, args);
  });
}

void launch_group_by_expert(const GroupByExpertArgs& args, cudaStream_t stream) {
  if (args.num_choices == 0) return;
  launch_kernel(group_by_expert_kernel, static_cast<unsigned>(args.experts), kThreads, 0, stream,
                args);
}

}  // namespace pagedinfer::kernels
