// Tokens of a step that the host has not seen: -1 - r stands for what the step before drew from
// row r of its logits.
#pragma once

#include "kernels/host_device.h"
#include "kernels/types.h"

namespace pagedinfer::kernels {

// 0, which every model has, where nothing could be drawn. `drawn` may be null for a known token.
KERNEL_HD constexpr int32_t resolved_token(int32_t token, const int32_t* drawn) {
  if (token >= 0) return token;
  const int32_t found = drawn[-1 - token];
  return found < 0 ? 0 : found;
}

// Puts in the place of each token the one that it stands for.
struct ResolveTokensArgs {
  int32_t* tokens;       // (count)
  const int32_t* drawn;  // by row
  int64_t count;
};
void launch_resolve_tokens(const ResolveTokensArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
