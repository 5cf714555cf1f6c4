#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/request.h"

namespace pagedinfer {

// Steps overlap: a step can be planned and launched before the host knows the tokens that the
// previous step draws. Two words follow from that:
//
// A *placeholder token* is a negative token: -1 - r stands for the token that row r of the latest
// StepProtocol::sample() draws, or for token 0 if that row can draw none. The device replaces each
// placeholder of a step with the token. The host replaces it after it has collected the token.
//
// A *surplus row* is a row of a step that was launched before the host knew that the row's sequence
// had ended. Its token is dropped.

// `count` cache positions to copy, in every layer.
struct KvCopy {
  int32_t source, destination, count;
};

// One step's work as flat arrays, ready to copy to a device. Prefill chunks and decode
// tokens are the same thing here: a sequence contributes `count` tokens.
//
//   copies                    are made before the step writes to the cache. A destination
//                             is no other copy's source or destination.
//   tokens, positions         one entry per token      (num_tokens); a token may be a placeholder
//   slot_mapping              where in the cache the token's keys and values go; -1: they are in
//                             the cache already        (num_tokens)
//   query_starts              first token of each seq  (num_seqs + 1)
//   context_lens              tokens visible to the seq's last query (num_seqs)
//   block_table               first cache position of each block, -1 padded
//                                                      (num_seqs, max_blocks)
//   logit_tokens              index of the token that each row of logits follows (num_logits)
struct Batch {
  std::vector<KvCopy> copies = {};
  std::vector<int32_t> tokens = {}, positions = {}, slot_mapping = {};
  std::vector<int32_t> query_starts = {}, context_lens = {}, block_table = {}, logit_tokens = {};
  int max_blocks = 0;
  int block_size = 0;  // positions per block

  int num_tokens() const { return static_cast<int>(tokens.size()); }
  int num_seqs() const { return static_cast<int>(context_lens.size()); }
  int num_logits() const { return static_cast<int>(logit_tokens.size()); }
};

}  // namespace pagedinfer
