#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/request.h"

namespace pagedinfer {

// A prompt of the input, as far as scheduling it goes.
struct SampledRequest {
  int num_prompt = 0;
  int max_new = 0;      // tokens of a completion: max_tokens, cut off at the model's length
  int num_samples = 1;  // sequences
  bool shares = true;   // finds prefixes of others, and they find its own
  // The earlier request that has the same first `num_shared` tokens, in full blocks; -1: none.
  int32_t like = -1;
  int num_shared = 0;

  // Tokens that a cache without bounds has when the request comes. The last one is computed anyway.
  int num_found() const { return num_shared < num_prompt ? num_shared : num_prompt - 1; }
};

// The requests of an input in bounded memory: all of them or, beyond the bounds, those whose first
// block has a hash in an ever smaller range. So requests that share a prefix are kept or dropped
// together. Of a group of more than an eighth of the sample as large a share is kept as of the
// others. Blocks count as equal when 64-bit hashes of all tokens up to their ends are.
class RequestSample {
 public:
  struct Bounds {
    int64_t requests = 100'000;
    int64_t blocks = 6'000'000;  // different ones, of all requests
  };

  explicit RequestSample(int block_size) : RequestSample(block_size, Bounds()) {}
  RequestSample(int block_size, const Bounds& bounds);

  // Adds the next request of the input. Sets `like` and `num_shared`.
  void add(std::span<const TokenId> prompt, SampledRequest request);

  // In the order of the input.
  const std::vector<SampledRequest>& requests() const { return requests_; }
  // Whether they are all that were added.
  bool is_whole() const { return num_dropped_bits_ == 0; }

 private:
  struct Block {
    uint64_t hash = 0;  // 0: the entry is empty
    int32_t request = -1;
  };

  // Requests with one first block, so many that the hash of this block may not decide about all.
  struct LargeGroup {
    uint64_t root = 0;
    int64_t seen = 0, kept = 0;
  };

  bool is_kept(uint64_t root) const;
  LargeGroup* find_large(uint64_t root);
  void find_large_groups();
  bool keep_next(LargeGroup& group) const;
  Block& find_entry(uint64_t hash);
  void insert(uint64_t hash, int32_t request);
  void rebuild(size_t num_entries);
  void thin();

  const int block_size_;
  const Bounds bounds_;
  int num_dropped_bits_ = 0;  // leading bits of a root's hash that must be 0
  std::vector<SampledRequest> requests_;
  std::vector<uint64_t> roots_;    // of the requests: hashes of their first blocks
  std::vector<LargeGroup> large_;  // few
  std::vector<Block> blocks_;      // by hash, open addressing
  int64_t num_blocks_ = 0;
};

}  // namespace pagedinfer
