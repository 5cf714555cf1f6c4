#include "tests/support/workload.h"

#include <algorithm>
#include <utility>

namespace pagedinfer {

Request make_request(int64_t index, int num_prompt, int max_tokens, TokenId vocab) {
  Request request;
  request.random_key = static_cast<uint64_t>(index);
  request.prompt = WorkloadRandom(static_cast<int>(index)).tokens(num_prompt, vocab);
  request.sampling.max_tokens = max_tokens;
  return request;
}

std::span<const TokenId> some(int count, int first) {
  static const std::vector<TokenId> tokens = WorkloadRandom(9).tokens(3000, 97);
  return std::span(tokens).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
}

void scramble(KvPool& pool, WorkloadRandom& random) {
  const TokenId token = 0;
  std::vector<KvLease> leases;
  while (auto lease = pool.open({&token, 1}, 0, kShareNone)) leases.push_back(*lease);
  for (; !leases.empty(); leases.pop_back()) {
    std::swap(leases[random.pick(0, static_cast<int>(leases.size()) - 1)], leases.back());
    pool.close(leases.back());
  }
}

namespace {

// Gives most requests one of a few heads: prompts that begin alike, or are the same.
void share_heads(std::vector<Arrival>& arrivals, WorkloadRandom& random, TokenId vocab) {
  std::vector<std::vector<TokenId>> heads;
  for (int i = random.pick(1, 3); i > 0; --i) heads.push_back(random.tokens(60, vocab));
  for (auto& [step, request] : arrivals) {
    if (random.one_in(4)) continue;
    const std::vector<TokenId>& head = heads[random.pick(0, static_cast<int>(heads.size()) - 1)];
    const auto num_prompt = static_cast<int>(request.prompt.size());
    const int num_shared = random.one_in(3) ? num_prompt : random.pick(0, num_prompt);
    std::copy_n(head.begin(), std::min(num_shared, 60), request.prompt.begin());
  }
}

}  // namespace

Workload random_workload(WorkloadRandom& random, TokenId vocab) {
  Workload work;
  const int num_requests = random.pick(1, 40);
  const int longest_answer = random.one_in(3) ? 60 : 20;
  const int spread = random.one_in(2) ? 0 : random.pick(1, 4);  // steps between arrivals
  int longest_prompt = 0, longest = 0, step = 0;
  for (int i = 0; i < num_requests; ++i) {
    const int num_prompt = random.one_in(3) ? random.pick(1, 6) : random.pick(1, 52);
    const int max_tokens = random.pick(1, longest_answer);
    longest_prompt = std::max(longest_prompt, num_prompt);
    longest = std::max(longest, num_prompt + max_tokens);
    step += random.pick(0, spread);
    work.arrivals.push_back({step, make_request(i, num_prompt, max_tokens, vocab)});
  }

  if (!random.one_in(3)) share_heads(work.arrivals, random, vocab);

  SchedulerLimits& limits = work.limits;
  limits.prefix_cache = !random.one_in(3);
  limits.batching = random.one_in(4) ? Batching::kStatic : Batching::kContinuous;
  limits.chunked_prefill = !random.one_in(4);
  limits.prefill_chunk_size = random.one_in(2) ? random.pick(1, 8) : random.pick(1, 64);
  if (random.one_in(3)) limits.max_prefill_chunks = random.pick(1, 3);
  limits.max_running = random.pick(1, 16);
  limits.max_waiting = random.pick(1, 40);
  // Some answers are cut off.
  limits.max_model_len =
      random.one_in(3) ? longest_prompt + 1 : random.pick(longest_prompt + 1, longest);
  limits.max_step_tokens = limits.max_running + random.pick(0, 64);
  if (!limits.chunked_prefill) limits.max_step_tokens += limits.max_model_len;
  limits.admission_reserve = random.one_in(3) ? 0.0 : random.one_in(5) ? 1.0 : 0.2;

  work.block_size = random.one_in(2) ? 1 << random.pick(0, 5) : random.pick(1, 32);
  const int blocks_for_longest = (longest + work.block_size - 1) / work.block_size;
  const int slack = random.one_in(2) ? random.pick(0, 4) : random.pick(0, 40);
  work.num_blocks = std::max(1, blocks_for_longest - random.pick(0, 1) + slack);
  work.num_reservations = random.pick(1, 6);
  return work;
}

BeamSettings random_beams(WorkloadRandom& random, int max_width) {
  return {.width = random.pick(2, max_width),
          .length_penalty = random.pick(-2, 6) / 3.0,
          .early_stopping = static_cast<EarlyStopping>(random.pick(0, 2))};
}

int tight_blocks(const Workload& work) {
  int64_t most = 1;
  for (const auto& [step, request] : work.arrivals) {
    const auto num_prompt = static_cast<int64_t>(request.prompt.size());
    const int64_t needed =
        bound_on_tokens(num_prompt, request.sampling.max_tokens, work.limits.max_model_len) - 1;
    const int64_t shared = num_prompt / work.block_size;
    const int64_t each = (needed + work.block_size - 1) / work.block_size - shared;
    most = std::max(most, shared + request.sampling.beams.width * each);
  }
  return static_cast<int>(most);
}

}  // namespace pagedinfer
