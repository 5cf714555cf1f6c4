#include "kv/contiguous_pool.h"

#include <fmt/format.h>

#include <limits>

#include "core/check.h"
#include "core/error.h"
#include "kv/audit.h"

namespace pagedinfer {
namespace {

int reservations_in(int64_t num_positions, int max_model_len) {
  CHECK(max_model_len > 0);
  if (num_positions < max_model_len) {
    throw Error(fmt::format(
        "--kv contiguous: the cache has {} positions, and a reservation needs {}; raise "
        "--num-blocks or --kv-memory, or lower --max-model-len",
        num_positions, max_model_len));
  }
  if (num_positions > std::numeric_limits<int32_t>::max()) {
    throw Error(
        fmt::format("--kv contiguous: the cache has {} positions, and at most {} can be "
                    "numbered; lower --num-blocks or --kv-memory",
                    num_positions, std::numeric_limits<int32_t>::max()));
  }
  return static_cast<int>(num_positions / max_model_len);
}

}  // namespace

ContiguousPool::ContiguousPool(int64_t num_positions, int max_model_len)
    : max_model_len_(max_model_len), reservations_(reservations_in(num_positions, max_model_len)) {}

// Nothing grows, so there is nothing to keep in reserve.
std::optional<KvLease> ContiguousPool::open(std::span<const TokenId> tokens, int, ShareScope) {
  CHECK(static_cast<int>(tokens.size()) <= max_model_len_);
  return take_reservation();
}

void ContiguousPool::adopt(KvLease&, std::span<const TokenId>) {
  CHECK(false);  // nothing is findable
}

std::optional<KvLease> ContiguousPool::take_reservation() {
  const auto taken = reservations_.allocate(1, next_owner_);
  if (!taken) return std::nullopt;
  return KvLease{.owner = next_owner_++, .block_table = {taken->front() * max_model_len_}};
}

std::optional<KvLease> ContiguousPool::fork(const KvLease& lease, int num_tokens) {
  CHECK(lease.block_table.size() == 1 && num_tokens <= max_model_len_);
  std::optional<KvLease> child = take_reservation();
  if (child) copies_.add({lease.block_table[0], child->block_table[0], num_tokens});
  return child;
}

bool ContiguousPool::grow(KvLease& lease, int, int end) {
  CHECK(lease.block_table.size() == 1 && end <= max_model_len_);
  return true;  // open() took the whole reservation
}

void ContiguousPool::close(KvLease& lease) {
  for (int32_t first : lease.block_table) {
    copies_.drop(first);
    reservations_.release(first / max_model_len_, lease.owner);
  }
  lease = KvLease{};
}

KvLease ContiguousPool::sources() const {
  KvLease own = {.owner = kOwnerOfSources};
  for (BlockId block : copies_.sources()) own.block_table.push_back(block * max_model_len_);
  return own;
}

KvStats ContiguousPool::stats() const {
  const BlockStats s = reservations_.stats();
  return {.positions_total = int64_t{s.total} * max_model_len_,
          .positions_leased = int64_t{s.used} * max_model_len_,
          .num_leased = s.used};
}

int64_t ContiguousPool::num_held(std::span<const HeldTokens> tokens) const {
  int64_t count = 0;
  for (const HeldTokens& held : tokens) count += held.count;
  return count;
}

int ContiguousPool::num_leaked(std::span<const KvLease* const> active) const {
  const KvLease own = sources();
  return static_cast<int>(
      find_unaccounted(reservations_, max_model_len_, active, {&own, 1}).size());
}

int ContiguousPool::reclaim(std::span<const KvLease* const> active) {
  const KvLease own = sources();
  return reclaim_unaccounted(reservations_, max_model_len_, active, {&own, 1});
}

}  // namespace pagedinfer
