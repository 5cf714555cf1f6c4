#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/backend_info.h"

namespace pagedinfer {

// What a run would take with another setting.
struct OtherWeights {
  std::string_view setting;  // "--quantize int4"
  int64_t weight_bytes = 0, activation_bytes = 0;
};

// The numbers that decide how many cache positions a run gets.
struct MemoryDemand {
  MemoryRules rules = {};          // of the device
  int64_t available_bytes = 0;     // that this process can still allocate
  int64_t weight_bytes = 0;        // of the model, mapped or copied
  int64_t activation_bytes = 0;    // scratch of the largest step, its logits included
  int64_t kv_bytes_per_token = 0;  // in all layers
  // Bytes of a cache of `num_positions` positions in all layers, rounding included. Empty:
  // num_positions * kv_bytes_per_token.
  std::function<int64_t(int64_t num_positions)> kv_bytes = {};
  // Other bytes that the run takes of the same memory: a fixed number, and a number for each
  // position of the cache.
  int64_t beside_bytes = 0, beside_bytes_per_token = 0;
  int block_size = 16;          // positions in a block; reservations are rounded up to whole blocks
  int64_t max_sequences = 256;  // at once
  int max_model_len = 0;
  std::optional<int64_t> num_blocks = {};  // --num-blocks
  std::optional<int64_t> kv_memory = {};   // --kv-memory, bytes
  // The settings with which the weights would take less, for the message that a run does not fit.
  std::function<std::vector<OtherWeights>()> smaller_weights = {};
};

// The sizes that a run uses.
struct MemoryPlan {
  int64_t available_bytes = 0;
  int64_t weight_bytes = 0, activation_bytes = 0, kv_bytes = 0, kv_bytes_per_token = 0;
  int64_t beside_bytes = 0;  // including the bytes for each position
  int64_t num_blocks = 0;
  int block_size = 0;

  int64_t total_bytes() const { return weight_bytes + activation_bytes + kv_bytes + beside_bytes; }

  int64_t num_positions() const { return num_blocks * block_size; }
};

// Bytes that a run may take on a device with its own memory, if `share` of that memory may be in
// use. Even with a share of 1 some memory is left for what no plan counts, mainly code that is
// loaded at its first use.
int64_t available_on_device(int64_t total_bytes, int64_t free_bytes, double share);

// Plans enough blocks for max_sequences sequences of max_model_len tokens, but no more than the
// usual share of the available memory holds besides weights and activations. If that share has no
// room for a short prompt, up to the maximum share is used. With --num-blocks plans exactly that
// number, with --kv-memory all blocks that fit into it. Throws Error naming the flag if there is
// room for less than one block or not enough memory, with the settings that would make it fit.
MemoryPlan plan_memory(const MemoryDemand& demand);

}  // namespace pagedinfer
