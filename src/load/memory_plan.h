#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "ops/backend_info.h"

namespace pagedinfer {

// What decides how many cache positions a run gets.
struct MemoryDemand {
  MemoryRules rules = {};          // of the device
  int64_t available_bytes = 0;     // that this process can still take
  int64_t weight_bytes = 0;        // of the model, mapped or copied
  int64_t activation_bytes = 0;    // scratch of the largest step, its logits included
  int64_t kv_bytes_per_token = 0;  // in all layers
  // Of a cache of so many positions in all layers, with what rounding adds. Empty: nothing is
  // added.
  std::function<int64_t(int64_t num_positions)> kv_bytes = {};
  // What the run takes of the same memory beside these, and that for each position of the cache.
  int64_t beside_bytes = 0, beside_bytes_per_token = 0;
  int block_size = 16;          // positions in a block; a reservation's share is whole blocks
  int64_t max_sequences = 256;  // at once
  int max_model_len = 0;
  std::optional<int64_t> num_blocks = {};  // --num-blocks
  std::optional<int64_t> kv_memory = {};   // --kv-memory, bytes
};

// The numbers a run uses, in bytes but for the blocks.
struct MemoryPlan {
  int64_t available_bytes = 0;
  int64_t weight_bytes = 0, activation_bytes = 0, kv_bytes = 0, kv_bytes_per_token = 0;
  int64_t beside_bytes = 0;  // those for each position included
  int64_t num_blocks = 0;
  int block_size = 0;

  int64_t total_bytes() const { return weight_bytes + activation_bytes + kv_bytes + beside_bytes; }

  int64_t num_positions() const { return num_blocks * block_size; }
};

// Bytes of a device with memory of its own that a run may take where `share` of all its memory may
// be in use. What is taken beside the plan, code at its first use above all, has a place even with
// a share of 1.
int64_t available_on_device(int64_t total_bytes, int64_t free_bytes, double share);

// Blocks for max_sequences of max_model_len, or as many as the usual share of the available memory
// holds beside weights and activations, up to the maximum share for the first few thousand
// positions; with --num-blocks exactly that, with --kv-memory all that fit into it. Throws Error,
// naming the flag, when there is not one block or not enough memory.
MemoryPlan plan_memory(const MemoryDemand& demand);

}  // namespace pagedinfer
