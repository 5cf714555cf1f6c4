// Combines the states of a tile's segments in ascending order and writes the output. Bound by
// reading the states: a thread computes four dimensions of one row and loads kAhead states at once.
#include "kernels/attention_launch.h"
#include "kernels/tensor_core.cuh"

namespace pagedinfer::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kAhead = 8;

template <class T>
__global__ void __launch_bounds__(kThreads) combine_kernel(const TileArgs a, int head_dim) {
  const AttentionCombine work = a.combines[blockIdx.x];
  if (work.end_segment == 0) return;
  const int kv_head = blockIdx.y;
  const int start = a.query_starts[work.seq];
  const int seq_rows = (a.query_starts[work.seq + 1] - start) * a.group;
  const int num_rows = min_of(a.tile_rows, seq_rows - work.first_row);
  // The tile's first row sees farthest back. Segments before its first key have no state.
  const int first_position = a.positions[start + work.first_row / a.group];
  const int first_segment = first_visible(first_position, a.window) / kSegmentKeys;

  const int vecs = head_dim / 4;
  const int thread = blockIdx.z * kThreads + threadIdx.x, step = gridDim.z * kThreads;
  for (int i = thread; i < num_rows * vecs; i += step) {
    const int row = i / vecs, column = i % vecs * 4;
    AttentionState total = {-__builtin_huge_valf(), 0.0f};
    float out[4] = {};
    for (int first = first_segment; first < work.end_segment; first += kAhead) {
      AttentionState part[kAhead];
      float4 part_out[kAhead];
#pragma unroll
      for (int s = 0; s < kAhead; ++s) {
        if (first + s >= work.end_segment) continue;
        const int64_t state = int64_t{work.state} + int64_t{first + s} * num_rows + row;
        const int64_t index = state * a.kv_heads + kv_head;
        part[s] = a.states[index];
        part_out[s] = *reinterpret_cast<const float4*>(a.state_outs + index * head_dim + column);
      }
#pragma unroll
      for (int s = 0; s < kAhead; ++s) {
        if (first + s >= work.end_segment) continue;
        const CombineScales scales = combine(total, part[s], exp2_fast);
        out[0] = combined(out[0], part_out[s].x, scales);
        out[1] = combined(out[1], part_out[s].y, scales);
        out[2] = combined(out[2], part_out[s].z, scales);
        out[3] = combined(out[3], part_out[s].w, scales);
      }
    }
    const int index = work.first_row + row;
    T* const to = static_cast<T*>(a.out) + int64_t(start + index / a.group) * a.out_stride +
                  int64_t(kv_head * a.group + index % a.group) * head_dim + column;
    uint32_t* const pairs = reinterpret_cast<uint32_t*>(to);
    pairs[0] = pack_pair<T>(normalized(out[0], total.sum), normalized(out[1], total.sum));
    pairs[1] = pack_pair<T>(normalized(out[2], total.sum), normalized(out[3], total.sum));
  }
}

}  // namespace

void launch_combine(const TileArgs& args, int head_dim, cudaStream_t stream) {
  const dim3 grid(args.num_combines, args.kv_heads, args.tile_rows / kSmallTileRows);
  if (args.type == Type::kBF16) {
    launch_kernel(combine_kernel<__nv_bfloat16>, grid, kThreads, 0, stream, args, head_dim);
  } else {
    launch_kernel(combine_kernel<__half>, grid, kThreads, 0, stream, args, head_dim);
  }
}

}  // namespace pagedinfer::kernels
