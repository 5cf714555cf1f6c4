#include "load/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/error.h"

namespace pagedinfer {
namespace {

constexpr int64_t kMaxPositions = INT32_MAX;  // a slot is an int32
constexpr int64_t kBesidePlanOnDevice = int64_t{512} << 20;
constexpr int64_t kFewPositions = 2048;

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

int64_t kv_bytes_of(const MemoryDemand& d, int64_t num_blocks) {
  const int64_t num_positions = num_blocks * d.block_size;
  return d.kv_bytes ? d.kv_bytes(num_positions) : num_positions * d.kv_bytes_per_token;
}

int64_t beside_bytes_of(const MemoryDemand& d, int64_t num_blocks) {
  return d.beside_bytes + num_blocks * d.block_size * d.beside_bytes_per_token;
}

// Bytes of the cache and of everything else besides weights and activations.
int64_t bytes_with(const MemoryDemand& d, int64_t num_blocks) {
  return kv_bytes_of(d, num_blocks) + beside_bytes_of(d, num_blocks);
}

// The maximum number of blocks for which `bytes_of` gives at most `room`. REQUIRES: `bytes_of`
// grows with the number of blocks.
int64_t max_blocks(const MemoryDemand& d, int64_t room,
                   int64_t (*bytes_of)(const MemoryDemand&, int64_t num_blocks)) {
  int64_t fits = 0, too_many = kMaxPositions / d.block_size + 1;
  while (too_many - fits > 1) {
    const int64_t middle = fits + (too_many - fits) / 2;
    (bytes_of(d, middle) <= room ? fits : too_many) = middle;
  }
  return fits;
}

// The maximum number of blocks with which the run takes at most this share of the memory.
int64_t blocks_within(const MemoryDemand& d, double share) {
  const auto usable = static_cast<int64_t>(share * static_cast<double>(d.available_bytes));
  return max_blocks(d, usable - d.weight_bytes - d.activation_bytes, bytes_with);
}

// The memory that the run takes besides the cache, in words.
std::string text_of_others(const MemoryDemand& d) {
  std::string text = fmt::format("the weights take {:.2f} GiB", gib(d.weight_bytes));
  const bool has_beside = d.beside_bytes > 0;
  text += fmt::format("{} the activations {:.2f} GiB", has_beside ? "," : " and",
                      gib(d.activation_bytes));
  if (has_beside) {
    text += fmt::format(" and what is read ahead and written {:.2f} GiB", gib(d.beside_bytes));
  }
  return text;
}

// The same run with other weights.
MemoryDemand with_weights(MemoryDemand d, const OtherWeights& other) {
  d.weight_bytes = other.weight_bytes;
  d.activation_bytes = other.activation_bytes;
  return d;
}

// The settings with which the run would fit, as the end of a message. fits(demand): whether a run
// does.
template <class Fits>
std::string settings_that_fit(const MemoryDemand& d, const Fits& fits) {
  std::string text;
  const auto smaller = d.smaller_weights ? d.smaller_weights() : std::vector<OtherWeights>();
  for (const OtherWeights& other : smaller) {
    if (!fits(with_weights(d, other))) continue;
    text += fmt::format("{} {}, with which the weights take {:.2f} GiB",
                        text.empty() ? "; it would fit with" : ", or with", other.setting,
                        gib(other.weight_bytes));
  }
  return text;
}

[[noreturn]] void refuse_for_memory(const MemoryDemand& d) {
  std::string text = fmt::format(
      "not enough {}: {:.2f} GiB are available{}; {}, which leaves no room for the KV cache",
      d.rules.name, gib(d.available_bytes), d.rules.limit, text_of_others(d));
  if (d.weight_bytes < d.available_bytes || d.rules.may_be_raised) {
    text += fmt::format(" (a smaller --max-batch-size and --max-step-tokens, or a {}, may help)",
                        d.rules.way_out);
  }
  throw Error(text + settings_that_fit(d, [](const MemoryDemand& other) {
                return blocks_within(other, other.rules.max_share) > 0;
              }));
}

int64_t blocks_asked_for(const MemoryDemand& d) {
  if (d.num_blocks) return *d.num_blocks;
  if (d.kv_memory) {
    const int64_t num_blocks = max_blocks(d, *d.kv_memory, kv_bytes_of);
    if (num_blocks > 0) return num_blocks;
    const int64_t smallest = kv_bytes_of(d, 1), block = d.block_size * d.kv_bytes_per_token;
    throw Error(
        fmt::format("--kv-memory: found {} bytes, expected at least {}: one block of --block-size "
                    "{} takes {}{}",
                    *d.kv_memory, smallest, d.block_size, block,
                    smallest > block ? ", and a cache is rounded up" : ""));
  }
  const int64_t longest = (int64_t{d.max_model_len} + d.block_size - 1) / d.block_size;
  int64_t fit = blocks_within(d, d.rules.usual_share);
  const int64_t few = std::min(longest, std::max<int64_t>(kFewPositions / d.block_size, 1));
  if (fit < few) fit = std::min(few, blocks_within(d, d.rules.max_share));
  if (fit == 0) refuse_for_memory(d);
  return std::min({longest * d.max_sequences, fit, kMaxPositions / d.block_size});
}

}  // namespace

int64_t available_on_device(int64_t total_bytes, int64_t free_bytes, double share) {
  const int64_t used = total_bytes - free_bytes;
  const auto asked_for = static_cast<int64_t>(share * static_cast<double>(total_bytes)) - used;
  return std::max<int64_t>(std::min(asked_for, free_bytes - kBesidePlanOnDevice), 0);
}

MemoryPlan plan_memory(const MemoryDemand& d) {
  const int64_t num_blocks = blocks_asked_for(d);
  const char* const flag = d.num_blocks ? "--num-blocks" : "--kv-memory";
  if (num_blocks > kMaxPositions / d.block_size) {
    throw Error(fmt::format("{}: {} blocks of {} positions; a cache has at most {} positions", flag,
                            num_blocks, d.block_size, kMaxPositions));
  }
  const MemoryPlan plan = {.available_bytes = d.available_bytes,
                           .weight_bytes = d.weight_bytes,
                           .activation_bytes = d.activation_bytes,
                           .kv_bytes = kv_bytes_of(d, num_blocks),
                           .kv_bytes_per_token = d.kv_bytes_per_token,
                           .beside_bytes = beside_bytes_of(d, num_blocks),
                           .num_blocks = num_blocks,
                           .block_size = d.block_size};
  if (plan.total_bytes() > d.available_bytes) {
    throw Error(fmt::format(
        "{}: {} blocks of {} positions take {:.2f} GiB; {:.2f} GiB are available{}, of which {}{}",
        flag, num_blocks, d.block_size, gib(plan.kv_bytes), gib(d.available_bytes), d.rules.place,
        text_of_others(d), settings_that_fit(d, [&](const MemoryDemand& other) {
          return other.weight_bytes + other.activation_bytes + bytes_with(other, num_blocks) <=
                 other.available_bytes;
        })));
  }
  return plan;
}

}  // namespace pagedinfer
