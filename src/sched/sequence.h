#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "core/request.h"
#include "kv/kv_pool.h"
#include "sched/beam_search.h"

namespace pagedinfer {

// The maximum number of tokens of a prompt and its completion, which the model's length cuts off.
inline int64_t bound_on_tokens(int64_t num_prompt, int64_t max_tokens, int max_model_len) {
  return num_prompt + std::min(max_tokens, max_model_len - num_prompt);
}

// The order of sequences: by the submission of their requests, then by sample. Smaller is older.
struct Age {
  int64_t request = 0;  // requests before it
  int sample = 0;       // the first one of the sequence's group
  auto operator<=>(const Age&) const = default;
};

// One sample of a request that is being computed. There is no prefill or decode state: a sequence
// has some known tokens, the first num_computed of which are in the cache, and each step lets it
// catch up by a few. When it has caught up it gets one more token, which counts as known from then
// on. Until its first token is drawn, sample 0 stands for all samples of its request. The beams of
// a search are samples in this sense, but they get their tokens together, from the search.
struct Sequence {
  // REQUIRES: the request outlives the sequence.
  Sequence(const Request& r, Age of, int max_model_len)
      : request(&r),
        age(of),
        max_tokens(
            static_cast<int>(bound_on_tokens(num_prompt(), r.sampling.max_tokens, max_model_len))),
        tokens(r.prompt) {}

  int num_prompt() const { return static_cast<int>(request->prompt.size()); }
  int num_known() const { return static_cast<int>(tokens.size()) - num_drafted; }
  int num_pending() const { return num_wanted() - num_computed; }
  int num_generated() const { return num_known() - num_prompt(); }
  // The number of known tokens that must be computed. If the request only scores its prompt, the
  // last prompt token need not be.
  int num_wanted() const { return num_known() - !draws(); }
  bool draws() const { return max_tokens > num_prompt(); }
  bool scores_prompt() const { return request->num_prompt_candidates() >= 0; }
  int num_samples() const { return num_generated() > 0 ? 1 : request->num_samples; }
  bool is_beam() const { return request->sampling.beams.width > 1; }
  bool is_guided() const { return !request->sampling.form.is_free(); }
  bool is_decoding() const { return num_generated() > 0 && num_pending() == 1; }
  std::span<const TokenId> generated() const {
    return std::span(tokens).first(num_known()).subspan(num_prompt());
  }

  // The number of its positions that hold a token after the planned step has filled them.
  int num_held() const { return std::max(num_computed + num_in_step, lease.num_cached); }

  // Computes the next `count` tokens.
  void advance(int count) {
    const int end = num_computed + count;
    num_recomputed += std::max(0, std::min(end, max_computed) - num_computed);
    num_computed = end;
    max_computed = std::max(max_computed, end);
  }

  // Of the next `count` tokens, the number whose rows of logits score the token after them. These
  // are the last rows of the chunk, except the row that draws.
  int num_scores(int count) const {
    if (!scores_prompt()) return 0;
    const int end = std::min(num_computed + count, num_prompt() - 1);
    return std::max(0, end - std::max(num_computed, num_scored));
  }

  // The pending tokens once the first `num_cached` ones are known to be in the cache. The last
  // known token is computed in any case: its logits are needed.
  int num_pending_after(int num_cached) const {
    return num_wanted() - std::max(num_computed, std::min(num_cached, num_wanted() - 1));
  }

  // Skips the tokens that its lease has found in the cache. Returns how many.
  int skip_cached() {
    const int begin = num_computed;
    num_computed = num_wanted() - num_pending_after(lease.num_cached);
    num_found += std::max(0, num_computed - std::max(begin, max_computed));
    max_computed = std::max(max_computed, num_computed);
    return num_computed - begin;
  }

  void drop_drafts() {
    tokens.resize(num_known());
    num_drafted = 0;
  }

  const Request* request;
  Age age;         // the same for all beams of a search
  int sample = 0;  // of the request
  int max_tokens;  // of prompt and completion
  // The prompt, then the generated tokens, the last of which may be a placeholder (core/batch.h),
  // then guessed tokens (speculative decoding), which a step verifies.
  std::vector<TokenId> tokens;
  int num_drafted = 0;  // guessed tokens at the end of `tokens`
  std::optional<FinishReason> finished = {};
  std::vector<FinishedBeam> found_beams = {};  // by a beam search that has ended

  ShareScope scope = kShareNone;  // where it looks for blocks of the cache
  KvLease lease = {};
  int num_shared = 0;  // of a beam that was preempted: leading tokens that an older one computes
  int num_computed = 0;
  int num_in_step = 0;         // tokens that the planned step computes, until it is advanced
  int max_computed = 0;        // the maximum of num_computed so far
  int num_found = 0;           // of these, tokens that were in the cache when first needed
  int64_t num_recomputed = 0;  // tokens computed again so far
  int num_scored = 0;          // leading tokens of the prompt whose rows have scored the next one
  int num_preemptions = 0;
};

// Why a sequence ends with its latest token; nullopt if it goes on. A beam must go on: any other
// answer ends the whole search with an error.
using EndOf = std::function<std::optional<FinishReason>(const Sequence&, const DrawnToken&)>;

// Returns the RoleOf for the search of the given beam.
using RolesOf = std::function<BeamSearch::RoleOf(const Sequence&)>;

}  // namespace pagedinfer
