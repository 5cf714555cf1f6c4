// A thread handles one token. Bound by the launch: a step has a few kilobytes of tokens.
#include "kernels/common.cuh"
#include "kernels/drawn_tokens.h"

namespace pagedinfer::kernels {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) resolve_tokens_kernel(const ResolveTokensArgs a) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= a.count || a.tokens[i] >= 0) return;
  a.tokens[i] = resolved_token(a.tokens[i], a.drawn);
}

}  // namespace

void launch_resolve_tokens(const ResolveTokensArgs& args, cudaStream_t stream) {
  if (args.count == 0) return;
  const auto blocks = static_cast<unsigned>((args.count + kThreads - 1) / kThreads);
  launch_kernel(resolve_tokens_kernel, dim3(blocks), kThreads, 0, stream, args);
}

}  // namespace pagedinfer::kernels
