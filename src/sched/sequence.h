#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "core/request.h"
#include "kv/kv_pool.h"

namespace pagedinfer {

// A prompt and its completion at their longest: what is asked for beyond the model's length is
// cut off there.
inline int64_t bound_on_tokens(int64_t num_prompt, int64_t max_tokens, int max_model_len) {
  return num_prompt + std::min(max_tokens, max_model_len - num_prompt);
}

// A request being worked on. There is no prefill or decode state: a sequence has some known
// tokens, the first num_computed of which are in the cache, and each step lets it catch up by a
// few. When it has caught up it gets one more token, which counts as known from then on.
struct Sequence {
  Sequence(Request r, int64_t place, int max_model_len)
      : request(std::move(r)),
        age(place),
        max_tokens(static_cast<int>(bound_on_tokens(static_cast<int64_t>(request.prompt.size()),
                                                    request.sampling.max_tokens, max_model_len))),
        tokens(request.prompt) {}

  int num_prompt() const { return static_cast<int>(request.prompt.size()); }
  int num_known() const { return static_cast<int>(tokens.size()); }
  int num_pending() const { return num_known() - num_computed; }
  int num_generated() const { return num_known() - num_prompt(); }
  bool is_decoding() const { return num_generated() > 0 && num_pending() == 1; }
  std::span<const TokenId> generated() const { return std::span(tokens).subspan(num_prompt()); }

  Request request;
  int64_t age;     // order of submission; smaller is older
  int max_tokens;  // of prompt and completion
  // Prompt, then generated. The last one may be a placeholder token (core/batch.h).
  std::vector<TokenId> tokens;
  std::optional<FinishReason> finished = {};

  KvLease lease = {};
  int num_computed = 0;
  int num_preemptions = 0;
  int64_t num_recomputed = 0;  // tokens computed again after preemptions
};

}  // namespace pagedinfer
