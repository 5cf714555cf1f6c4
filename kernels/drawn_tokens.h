// Placeholder tokens: -1 - r stands for what row r of the latest launch_sample() drew.
#pragma once

#include "kernels/host_device.h"
#include "kernels/types.h"

namespace pagedinfer::kernels {

// The token itself or, for a placeholder, the token that was drawn; 0, which every vocabulary has,
// if none was. `drawn` may be null if no token is a placeholder.
KERNEL_HD constexpr int32_t resolved_token(int32_t token, const int32_t* drawn) {
  if (token >= 0) return token;
  const int32_t found = drawn[-1 - token];
  return found < 0 ? 0 : found;
}

// Replaces each placeholder token by the token that it stands for.
struct ResolveTokensArgs {
  int32_t* tokens;       // (count)
  const int32_t* drawn;  // by row
  int64_t count;
};
void launch_resolve_tokens(const ResolveTokensArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
