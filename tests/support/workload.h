// Seeded random requests, limits and pool sizes, chosen so that every rule of scheduling applies.
#pragma once

#include <random>
#include <utility>

#include "tests/support/harness.h"

namespace pagedinfer {

class WorkloadRandom {
 public:
  explicit WorkloadRandom(int seed) : engine_(static_cast<unsigned>(seed)) {}

  int pick(int low, int high) {  // from [low, high]
    return low + static_cast<int>(engine_() % static_cast<unsigned>(high - low + 1));
  }
  bool one_in(int n) { return pick(1, n) == 1; }
  std::vector<TokenId> tokens(int count, TokenId vocab) {
    std::vector<TokenId> drawn(count);
    for (TokenId& token : drawn) token = pick(0, vocab - 1);
    return drawn;
  }

 private:
  std::mt19937 engine_;
};

// A request of `num_prompt` tokens below `vocab`, which depend on its index only. The index is its
// random key.
Request make_request(int64_t index, int num_prompt, int max_tokens, TokenId vocab = 97);

// A line of this prompt alone.
inline PreparedLine line_of(Request request, int64_t index = 0) {
  return {.head = {.index = index}, .prompts = {std::move(request)}};
}

// `count` of 3,000 random tokens, the same in every call, from the `first` one on.
std::span<const TokenId> some(int count, int first = 0);

// Shuffles the free blocks.
void scramble(KvPool& pool, WorkloadRandom& random);

// The sizes of both kinds of pool let some requests hardly fit and some exceed the cache.
struct Workload {
  std::vector<Arrival> arrivals;
  SchedulerLimits limits;
  int num_blocks = 0, block_size = 0;  // of a paged pool
  int num_reservations = 0;            // of a contiguous one
};

Workload random_workload(WorkloadRandom& random, TokenId vocab);

// Settings of a beam search of at most `max_width` beams.
BeamSettings random_beams(WorkloadRandom& random, int max_width);

// As many blocks as the request that needs the largest number, and no more.
int tight_blocks(const Workload& work);

}  // namespace pagedinfer
