#include "kv/paged_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "core/error.h"
#include "kv/audit.h"

namespace pagedinfer {
namespace {

int checked_blocks(int64_t num_blocks, int block_size) {
  CHECK(block_size > 0);
  const int64_t max_blocks = std::numeric_limits<int32_t>::max() / block_size;
  if (num_blocks < 1 || num_blocks > max_blocks) {
    throw Error(fmt::format(
        "--kv paged: {} blocks of {} positions, expected 1 to {} blocks; change --num-blocks or "
        "--kv-memory",
        num_blocks, block_size, max_blocks));
  }
  return static_cast<int>(num_blocks);
}

}  // namespace

PagedPool::PagedPool(int64_t num_blocks, int block_size)
    : block_size_(block_size), blocks_(checked_blocks(num_blocks, block_size)) {}

std::optional<KvLease> PagedPool::open(std::span<const TokenId> tokens, int reserve) {
  const int num_tokens = static_cast<int>(tokens.size());
  const int64_t left = blocks_.stats().free - blocks_for(num_tokens);
  if (left < 0 || left * block_size_ < reserve) return std::nullopt;
  KvLease lease = {.owner = next_owner_++};
  CHECK(grow(lease, 0, num_tokens));
  return lease;
}

std::optional<KvLease> PagedPool::fork(const KvLease& lease, int num_tokens) {
  const int num_blocks = blocks_for(num_tokens);
  CHECK(num_blocks <= static_cast<int>(lease.block_table.size()));
  const auto taken = blocks_.allocate(num_blocks, next_owner_);
  if (!taken) return std::nullopt;
  KvLease child = {.owner = next_owner_++};
  for (int i = 0; i < num_blocks; ++i) {
    const int32_t first = (*taken)[i] * block_size_;
    child.block_table.push_back(first);
    copies_.add({lease.block_table[i], first, std::min(block_size_, num_tokens - i * block_size_)});
  }
  return child;
}

bool PagedPool::grow(KvLease& lease, int begin, int end) {
  CHECK(begin <= static_cast<int64_t>(lease.block_table.size()) * block_size_);
  const int missing = blocks_for(end) - static_cast<int>(lease.block_table.size());
  if (missing <= 0) return true;
  const auto taken = blocks_.allocate(missing, lease.owner);
  if (!taken) return false;
  for (BlockId block : *taken) lease.block_table.push_back(block * block_size_);
  return true;
}

void PagedPool::close(KvLease& lease) {
  for (int32_t first : lease.block_table) {
    copies_.drop(first);
    blocks_.release(first / block_size_, lease.owner);
  }
  lease = KvLease{};
}

std::optional<int64_t> PagedPool::free_tokens() const {
  return int64_t{blocks_.stats().free} * block_size_;
}

KvLease PagedPool::sources() const {
  KvLease own = {.owner = kOwnerOfSources};
  for (BlockId block : copies_.sources()) own.block_table.push_back(block * block_size_);
  return own;
}

KvStats PagedPool::stats() const {
  const BlockStats s = blocks_.stats();
  return {.positions_total = int64_t{s.total} * block_size_,
          .positions_leased = int64_t{s.used} * block_size_};
}

int PagedPool::num_leaked(std::span<const KvLease* const> active) const {
  return static_cast<int>(find_unaccounted(blocks_, block_size_, active, sources()).size());
}

int PagedPool::reclaim(std::span<const KvLease* const> active) {
  return reclaim_unaccounted(blocks_, block_size_, active, sources());
}

}  // namespace pagedinfer
