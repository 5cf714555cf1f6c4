#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/request.h"

namespace pagedinfer {

// The properties of a prompt that scheduling depends on.
struct SampledRequest {
  int num_prompt = 0;
  int max_new = 0;      // tokens of a completion: max_tokens, cut off at the model's length
  int num_samples = 1;  // sequences
  bool shares = true;   // may share prefixes with other requests
  int64_t line = -1;  // equal for the prompts of a line, which follow one another; -1: it is alone
  // The earlier request that has the same first `num_shared` tokens, in full blocks; -1: none.
  int32_t like = -1;
  int num_shared = 0;

  // Tokens that an unbounded cache has when the request comes. The prompt's last token is always
  // computed.
  int num_found() const { return num_shared < num_prompt ? num_shared : num_prompt - 1; }
};

// A sample of an input's requests in bounded memory. It keeps all requests until a bound is
// exceeded, then only requests whose first block has a hash in an ever smaller range, so that
// requests with a common prefix are kept or dropped together. A group that is more than an eighth
// of the sample is thinned like the rest instead. Two blocks count as equal if the 64-bit hashes of
// all tokens up to their ends are equal.
class RequestSample {
 public:
  struct Bounds {
    int64_t requests = 100'000;
    int64_t blocks = 6'000'000;  // distinct blocks of all requests
  };

  explicit RequestSample(int block_size) : RequestSample(block_size, Bounds()) {}
  RequestSample(int block_size, const Bounds& bounds);

  // Adds the next request of the input. Sets `like` and `num_shared`.
  void add(std::span<const TokenId> prompt, SampledRequest request);

  // In the order of the input.
  const std::vector<SampledRequest>& requests() const { return requests_; }
  // Whether every added request is kept.
  bool is_whole() const { return num_dropped_bits_ == 0; }

 private:
  struct Block {
    uint64_t hash = 0;  // 0: the entry is empty
    int32_t request = -1;
  };

  // Requests with the same first block that are too many to be kept or dropped by its hash.
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
  std::vector<uint64_t> roots_;    // hash of each request's first block
  std::vector<LargeGroup> large_;  // few
  std::vector<Block> blocks_;      // by hash, open addressing
  int64_t num_blocks_ = 0;
};

}  // namespace pagedinfer
