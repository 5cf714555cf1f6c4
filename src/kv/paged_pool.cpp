#include "kv/paged_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

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

PagedPool::PagedPool(int64_t num_blocks, int block_size, uint64_t hash_mask)
    : block_size_(block_size),
      blocks_(checked_blocks(num_blocks, block_size)),
      index_(blocks_.stats().total, block_size, hash_mask) {}

std::optional<KvLease> PagedPool::open(std::span<const TokenId> tokens, int reserve,
                                       ShareScope scope) {
  KvLease lease = {.owner = next_owner_++, .scope = scope};
  const std::vector<BlockId> found = find_blocks(lease, tokens);
  const auto num_found = static_cast<int>(found.size());
  const auto num_idle = std::ranges::count_if(found, [&](BlockId b) { return index_.is_idle(b); });
  // If open() finds a reusable block, that block is no longer available for other tokens.
  const int missing = blocks_for(static_cast<int>(tokens.size())) - num_found;
  const int64_t left = num_available() - num_idle - missing;
  if (left < 0 || left * block_size_ < reserve) return std::nullopt;
  for (const BlockId id : found) append_shared(lease, id);
  lease.num_published = num_found;
  lease.num_cached = num_found * block_size_;
  for (const BlockId id : take(missing, lease.owner)) append(lease, id);
  return lease;
}

// Returns the known blocks that follow the first lease.num_published blocks of these tokens.
std::vector<BlockId> PagedPool::find_blocks(const KvLease& lease,
                                            std::span<const TokenId> tokens) const {
  std::vector<BlockId> found;
  if (lease.scope == kShareNone) return found;
  BlockId parent = lease.num_published == 0 ? kNoBlock : block(lease, lease.num_published - 1);
  const size_t size = static_cast<size_t>(block_size_);
  for (size_t at = size * lease.num_published; at + size <= tokens.size(); at += size) {
    parent = index_.find(lease.scope, parent, tokens.subspan(at, size));
    if (parent == kNoBlock) break;
    found.push_back(parent);
  }
  return found;
}

int PagedPool::num_findable(const KvLease& lease, std::span<const TokenId> tokens) const {
  const auto num_found = static_cast<int>(find_blocks(lease, tokens).size());
  return num_found == 0 ? 0 : (lease.num_published + num_found) * block_size_;
}

void PagedPool::adopt(KvLease& lease, std::span<const TokenId> tokens) {
  const std::vector<BlockId> found = find_blocks(lease, tokens);
  CHECK(!found.empty());
  for (const BlockId id : found) exchange(lease, lease.num_published++, id);
  lease.num_cached = lease.num_published * block_size_;
}

std::optional<KvLease> PagedPool::fork(const KvLease& lease, int num_tokens) {
  const int num_blocks = blocks_for(num_tokens);
  CHECK(num_blocks <= std::ssize(lease.block_table));
  KvLease child = {.owner = next_owner_++,
                   .scope = lease.scope,
                   .num_cached = std::min(lease.num_cached, num_tokens),
                   .num_published = std::min(lease.num_published, num_tokens / block_size_)};
  for (int i = 0; i < num_blocks; ++i) append_shared(child, block(lease, i));
  return child;
}

bool PagedPool::grow(KvLease& lease, int begin, int end) {
  const auto have = static_cast<int>(lease.block_table.size());
  const int wanted = std::max(have, blocks_for(end));
  CHECK(begin <= int64_t{have} * block_size_);
  std::vector<int> shared;  // blocks of the range that other leases hold too
  for (int i = begin / block_size_; i < std::min(have, blocks_for(end)); ++i) {
    CHECK(!index_.contains(block(lease, i)));  // known blocks are full and never written again
    if (num_leases(block(lease, i)) > 1) shared.push_back(i);
  }
  const int num_new = wanted - have + static_cast<int>(shared.size());
  if (num_new == 0) return true;
  if (num_new > num_available()) return false;

  const std::vector<BlockId> taken = take(num_new, lease.owner);
  auto next = taken.begin();
  for (const int i : shared) {
    const BlockId original = block(lease, i);
    lease.block_table[i] = *next * block_size_;
    ++num_leased_;
    const int num_held = begin - i * block_size_;
    if (num_held > 0) copies_.add({original * block_size_, *next * block_size_, num_held});
    drop(lease, original);
    ++next;
  }
  for (; next != taken.end(); ++next) append(lease, *next);
  return true;
}

void PagedPool::publish(KvLease& lease, std::span<const TokenId> tokens,
                        std::vector<PublishedBlock>& published) {
  if (lease.scope == kShareNone) return;
  const auto num_full = static_cast<int>(tokens.size()) / block_size_;
  for (int& i = lease.num_published; i < num_full; ++i) {
    const BlockId own = block(lease, i);
    if (index_.contains(own)) continue;  // another lease that holds it has published it
    const auto held = tokens.subspan(static_cast<size_t>(i) * block_size_, block_size_);
    CHECK(std::ranges::all_of(held, [](TokenId token) { return token >= 0; }));
    const BlockId parent = i == 0 ? kNoBlock : block(lease, i - 1);
    // A known block with the same content takes the place of the own one.
    if (const BlockId same = index_.find(lease.scope, parent, held); same != kNoBlock) {
      exchange(lease, i, same);
      continue;
    }
    published.push_back({own, index_.insert(lease.scope, parent, own, held)});
    blocks_.share(own, kOwnerOfIndex);
  }
}

void PagedPool::withdraw(std::span<const PublishedBlock> published) {
  for (size_t i = published.size(); i-- > 0;) {
    const auto [id, serial] = published[i];
    if (index_.serial(id) != serial) continue;  // evicted since
    CHECK(num_leases(id) == 0);
    index_.erase(id);
    blocks_.release(id, kOwnerOfIndex);
  }
}

// The last block first, so that a prefix is evicted from its end.
void PagedPool::close(KvLease& lease) {
  for (; !lease.block_table.empty(); lease.block_table.pop_back()) {
    copies_.drop(lease.block_table.back());
    --num_listed_;
    drop(lease, lease.block_table.back() / block_size_);
  }
  lease = KvLease{};
}

// REQUIRES: num_available() >= num_blocks
std::vector<BlockId> PagedPool::take(int num_blocks, OwnerId owner) {
  while (blocks_.stats().free < num_blocks) {
    const BlockId oldest = index_.next_to_evict();
    index_.erase(oldest);
    blocks_.release(oldest, kOwnerOfIndex);
    ++num_evicted_;
  }
  return blocks_.allocate(num_blocks, owner).value();
}

// Adds a block that take() has given to the lease.
void PagedPool::append(KvLease& lease, BlockId id) {
  lease.block_table.push_back(id * block_size_);
  ++num_listed_;
  ++num_leased_;
}

// Makes the lease one more holder of a used block.
void PagedPool::hold(const KvLease& lease, BlockId id) {
  num_leased_ += num_leases(id) == 0;
  if (index_.contains(id) && index_.is_idle(id)) index_.set_busy(id);
  blocks_.share(id, lease.owner);
}

void PagedPool::append_shared(KvLease& lease, BlockId id) {
  hold(lease, id);
  lease.block_table.push_back(id * block_size_);
  ++num_listed_;
}

// Puts a used block in the place of the lease's block i.
void PagedPool::exchange(KvLease& lease, int i, BlockId id) {
  const int32_t before = lease.block_table[i];
  if (before == id * block_size_) return;
  hold(lease, id);
  lease.block_table[i] = id * block_size_;
  copies_.drop(before);
  drop(lease, before / block_size_);
}

// The lease no longer holds the block.
void PagedPool::drop(const KvLease& lease, BlockId id) {
  blocks_.release(id, lease.owner);
  if (num_leases(id) > 0) return;
  --num_leased_;
  if (index_.contains(id)) make_reusable(id);
}

// Marks a known block that no lease holds any more.
void PagedPool::make_reusable(BlockId id) {
  if (index_.scope(id) == kShareAll) return index_.set_idle(id);
  index_.erase(id);
  blocks_.release(id, kOwnerOfIndex);
}

int PagedPool::num_leases(BlockId id) const {
  return blocks_.num_refs(id) - index_.contains(id) - copies_.has_source(id);
}

std::optional<int64_t> PagedPool::free_tokens() const {
  return int64_t{num_available()} * block_size_;
}

KvStats PagedPool::stats() const {
  const BlockStats s = blocks_.stats();
  const int idle = index_.num_idle();
  return {.positions_total = int64_t{s.total} * block_size_,
          .positions_leased = int64_t{s.used - idle} * block_size_,
          .positions_reusable = int64_t{idle} * block_size_,
          .positions_saved = (num_listed_ - num_leased_) * block_size_,
          .num_leased = s.used - idle,
          .num_evicted = num_evicted_};
}

// A block holds as many tokens as the lease that has the most in it.
int64_t PagedPool::num_held(std::span<const HeldTokens> tokens) const {
  int64_t count = 0;
  for (const HeldTokens& held : tokens) count += held.count;
  if (num_listed_ == num_leased_) return count;  // nothing is shared
  held_in_block_.resize(static_cast<size_t>(blocks_.stats().total));
  for (const auto& [lease, num_tokens] : tokens) {
    for (int i = 0, left = num_tokens; left > 0; ++i, left -= block_size_) {
      int& in_block = held_in_block_[static_cast<size_t>(block(*lease, i))];
      const int held = std::min(left, block_size_);
      count -= std::min(held, in_block);
      in_block = std::max(in_block, held);
    }
  }
  for (const auto& [lease, num_tokens] : tokens) {
    for (int i = 0; i < blocks_for(num_tokens); ++i) {
      held_in_block_[static_cast<size_t>(block(*lease, i))] = 0;
    }
  }
  return count;
}

// The leases of the blocks that the pool holds for itself.
std::vector<KvLease> PagedPool::own_leases() const {
  KvLease sources = {.owner = kOwnerOfSources}, known = {.owner = kOwnerOfIndex};
  for (const BlockId id : copies_.sources()) sources.block_table.push_back(id * block_size_);
  for (const BlockId id : index_.blocks()) known.block_table.push_back(id * block_size_);
  return {std::move(sources), std::move(known)};
}

int PagedPool::num_leaked(std::span<const KvLease* const> active) const {
  return static_cast<int>(find_unaccounted(blocks_, block_size_, active, own_leases()).size());
}

int PagedPool::reclaim(std::span<const KvLease* const> active) {
  const int num_freed = reclaim_unaccounted(blocks_, block_size_, active, own_leases());
  std::vector<BlockId> known = index_.blocks();
  std::ranges::sort(known, std::greater<>(), [&](BlockId id) { return index_.serial(id); });
  for (const BlockId id : known) {  // children before their parents
    if (!index_.is_idle(id) && num_leases(id) == 0) make_reusable(id);
  }
  num_leased_ = num_listed_ = 0;
  for (BlockId id = 0; id < blocks_.stats().total; ++id) {
    num_leased_ += num_leases(id) > 0;
    num_listed_ += num_leases(id);
  }
  return num_freed;
}

void PagedPool::check_invariants() const {
  blocks_.check_invariants();
  index_.check_invariants();
  int64_t num_leased = 0, num_listed = 0;
  for (BlockId id = 0; id < blocks_.stats().total; ++id) {
    const int leases = num_leases(id);
    CHECK(leases >= 0);
    num_leased += leases > 0;
    num_listed += leases;
    if (!index_.contains(id)) continue;
    CHECK(std::ranges::count(blocks_.owners(id), kOwnerOfIndex) == 1);
    CHECK(index_.is_idle(id) == (leases == 0));
    CHECK(leases > 0 || index_.scope(id) == kShareAll);
  }
  CHECK(num_leased == num_leased_ && num_listed == num_listed_);
}

}  // namespace pagedinfer
