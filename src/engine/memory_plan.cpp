#include "engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace pagedinfer {
namespace {

constexpr int64_t kMaxPositions = INT32_MAX;  // a slot is an int32
constexpr int64_t kBesidePlanOnDevice = int64_t{512} << 20;
constexpr int64_t kFewPositions = 2048;

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

int64_t blocks_asked_for(const MemoryDemand& d, int64_t block_bytes) {
  if (d.num_blocks) return *d.num_blocks;
  if (d.kv_memory) {
    if (*d.kv_memory < block_bytes) {
      throw Error(fmt::format("--kv-memory {}: one block of --block-size {} takes {} bytes",
                              *d.kv_memory, d.block_size, block_bytes));
    }
    return *d.kv_memory / block_bytes;
  }
  const int64_t longest = (d.max_model_len + d.block_size - 1) / d.block_size;
  const auto fitting = [&](double share) {
    const auto usable = static_cast<int64_t>(share * static_cast<double>(d.available_bytes));
    return std::max<int64_t>(usable - d.weight_bytes - d.activation_bytes, 0) / block_bytes;
  };
  int64_t fit = fitting(d.rules.usual_share);
  const int64_t few = std::min(longest, std::max<int64_t>(kFewPositions / d.block_size, 1));
  if (fit < few) fit = std::min(few, fitting(d.rules.max_share));
  if (fit == 0) {
    throw Error(fmt::format(
        "not enough {}: {:.2f} GiB are available{}; the weights take {:.2f} GiB and the "
        "activations {:.2f} GiB, which leaves no room for the KV cache (a smaller --max-batch-size "
        "and --max-step-tokens, or a {}, may help)",
        d.rules.name, gib(d.available_bytes), d.rules.limit, gib(d.weight_bytes),
        gib(d.activation_bytes), d.rules.way_out));
  }
  return std::min({longest * d.max_sequences, fit, kMaxPositions / d.block_size});
}

}  // namespace

int64_t available_on_device(int64_t total_bytes, int64_t free_bytes, double share) {
  const int64_t used = total_bytes - free_bytes;
  const auto asked_for = static_cast<int64_t>(share * static_cast<double>(total_bytes)) - used;
  return std::max<int64_t>(std::min(asked_for, free_bytes - kBesidePlanOnDevice), 0);
}

MemoryPlan plan_memory(const MemoryDemand& d) {
  const int64_t block_bytes = d.kv_bytes_per_token * d.block_size;
  const int64_t max_blocks =
      (d.available_bytes - d.weight_bytes - d.activation_bytes) / block_bytes;
  const int64_t num_blocks = blocks_asked_for(d, block_bytes);
  if (num_blocks > kMaxPositions / d.block_size) {
    throw Error(fmt::format("{}: {} blocks of {} positions; a cache has at most {} positions",
                            d.num_blocks ? "--num-blocks" : "--kv-memory", num_blocks, d.block_size,
                            kMaxPositions));
  }
  if (num_blocks > max_blocks) {
    throw Error(fmt::format(
        "{}: {} blocks of {} positions take {:.2f} GiB; {:.2f} GiB are available{}, of which the "
        "weights take {:.2f} GiB and the activations {:.2f} GiB",
        d.num_blocks ? "--num-blocks" : "--kv-memory", num_blocks, d.block_size,
        static_cast<double>(num_blocks) * gib(block_bytes), gib(d.available_bytes), d.rules.place,
        gib(d.weight_bytes), gib(d.activation_bytes)));
  }
  return {.weight_bytes = d.weight_bytes,
          .activation_bytes = d.activation_bytes,
          .kv_bytes = num_blocks * block_bytes,
          .kv_bytes_per_token = d.kv_bytes_per_token,
          .num_blocks = num_blocks,
          .block_size = d.block_size};
}

}  // namespace pagedinfer
