#include "engine/host_share.h"

#include <algorithm>

#include "engine/intake.h"

namespace pagedinfer {
namespace {

constexpr int64_t kItemBytes = 2 << 10;  // of a request without its tokens
constexpr int64_t kOutputBytes = 4 << 20;
constexpr int64_t kBlockBytes = 128;  // the allocator's and the index's entries of a block

// Two lists of ids, the time of each token, its text, and the index's copy of its id.
constexpr int64_t kTokenBytes = 2 * sizeof(TokenId) + sizeof(double) + 12 + sizeof(TokenId);

}  // namespace

// A request that waits has its prompt twice: as it came, and as its sequence's tokens.
HostShare plan_host_share(const SchedulerLimits& limits, int block_size, int64_t tokenizer_bytes,
                          int64_t form_bytes) {
  const int64_t longest = int64_t{limits.max_waiting} * limits.max_model_len;
  const int64_t waiting_tokens =
      std::min(longest, limits.max_waiting_tokens + limits.max_model_len);
  return {
      .tokenizer = tokenizer_bytes,
      .forms = form_bytes,
      .read_ahead = IntakeLimits{}.max_tokens * int64_t{sizeof(TokenId)} +
                    (int64_t{limits.max_waiting} + kReadAhead) * kItemBytes,
      .waiting = 2 * int64_t{sizeof(TokenId)} * waiting_tokens + limits.max_waiting * kItemBytes,
      .output = kOutputBytes,
      .per_token = kTokenBytes + (kBlockBytes + block_size - 1) / block_size};
}

}  // namespace pagedinfer
