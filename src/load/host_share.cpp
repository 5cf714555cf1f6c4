#include "load/host_share.h"

#include <algorithm>

#include "intake/form_gate.h"
#include "intake/intake.h"

namespace pagedinfer {
namespace {

constexpr int64_t kItemBytes = 2 << 10;  // of a request without its tokens
constexpr int64_t kOutputBytes = 4 << 20;
// How far a sequence has come in its form, and its mask: most take less.
constexpr int64_t kFormProgressBytes = 64 << 10;
constexpr int64_t kBlockBytes = 128;  // the allocator's and the index's entries of a block

// A token takes an id in two lists, its time, its text, and a copy of its id in the index.
constexpr int64_t kTokenBytes = 2 * sizeof(TokenId) + sizeof(double) + 12 + sizeof(TokenId);

constexpr int64_t kListBytes = 16;   // overhead of a list on the heap
constexpr int64_t kLabelBytes = 72;  // of a token in a record, its bytes and log probability

}  // namespace

// A waiting request holds its prompt twice: in the request and in its sequence.
HostShare plan_host_share(const SchedulerLimits& limits, int block_size, int64_t tokenizer_bytes,
                          int64_t form_bytes) {
  const int64_t longest = int64_t{limits.max_waiting} * limits.max_model_len;
  const int64_t waiting_tokens =
      std::min(longest, limits.max_waiting_tokens + limits.max_model_len);
  return {
      .tokenizer = tokenizer_bytes,
      .forms = form_bytes > 0 ? form_bytes + limits.max_running * kFormProgressBytes : 0,
      .read_ahead = (IntakeLimits{}.max_tokens + FormGate::kMaxTokens) * int64_t{sizeof(TokenId)} +
                    (int64_t{limits.max_waiting} + kReadAhead + FormGate::kMaxLines) * kItemBytes,
      .waiting = 2 * int64_t{sizeof(TokenId)} * waiting_tokens + limits.max_waiting * kItemBytes,
      .output = kOutputBytes,
      .per_token = kTokenBytes + (kBlockBytes + block_size - 1) / block_size};
}

// A list that grows may have twice the capacity that it needs.
int64_t log_prob_bytes(int num_candidates) {
  if (num_candidates < 0) return 0;
  return 2 * int64_t{sizeof(TokenLogProbs)} + kListBytes +
         num_candidates * int64_t{sizeof(TokenCandidate)};
}

int64_t answer_bytes(const Request& request, int max_new) {
  const auto with_text = [](int num_candidates) {
    const int64_t num_labels = num_candidates < 0 ? 0 : num_candidates + 1;
    return log_prob_bytes(num_candidates) + 2 * num_labels * kLabelBytes;
  };
  const int64_t choices =
      std::max({request.num_samples, request.num_returned, request.sampling.beams.width});
  const int64_t each = kTokenBytes + with_text(request.sampling.num_log_probs);
  const auto prompt = std::ssize(request.prompt);
  const int64_t repeated = request.echo ? prompt : 0;
  return choices * (max_new + repeated) * each + prompt * with_text(request.num_prompt_log_probs);
}

}  // namespace pagedinfer
