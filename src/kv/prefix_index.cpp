#include "kv/prefix_index.h"

#include <algorithm>
#include <bit>

#include "core/check.h"

namespace pagedinfer {

PrefixIndex::PrefixIndex(int num_blocks, int block_size, uint64_t hash_mask)
    : block_size_(static_cast<size_t>(block_size)),
      hash_mask_(hash_mask),
      nodes_(static_cast<size_t>(num_blocks)),
      tokens_(std::make_unique_for_overwrite<TokenId[]>(nodes_.size() * block_size_)),
      buckets_(std::bit_ceil(nodes_.size() + 1), kNoBlock) {}

// Each value is mixed by xor, multiply and shift (the finalizer of MurmurHash3 by Appleby).
uint64_t PrefixIndex::hash_of(int64_t scope, BlockId parent,
                              std::span<const TokenId> tokens) const {
  uint64_t hash = static_cast<uint64_t>(scope);
  const auto mix = [&](uint64_t value) {
    hash = (hash ^ value) * 0xff51afd7ed558ccdull;
    hash ^= hash >> 33;
  };
  mix(static_cast<uint32_t>(parent));
  for (const TokenId token : tokens) mix(static_cast<uint32_t>(token));
  return hash & hash_mask_;
}

BlockId PrefixIndex::find(int64_t scope, BlockId parent, std::span<const TokenId> tokens) const {
  const uint64_t hash = hash_of(scope, parent, tokens);
  BlockId block = buckets_[hash & (buckets_.size() - 1)];
  for (; block != kNoBlock; block = nodes_[block].next_in_bucket) {
    const Node& node = nodes_[block];
    if (node.hash == hash && node.scope == scope && node.parent == parent &&
        std::ranges::equal(tokens_of(block), tokens)) {
      break;
    }
  }
  return block;
}

int64_t PrefixIndex::insert(int64_t scope, BlockId parent, BlockId block,
                            std::span<const TokenId> tokens) {
  CHECK(!contains(block) && tokens.size() == block_size_);
  CHECK(parent == kNoBlock || (contains(parent) && !is_idle(parent)));
  const uint64_t hash = hash_of(scope, parent, tokens);
  nodes_[block] = {.serial = next_serial_++,
                   .scope = scope,
                   .hash = hash,
                   .parent = parent,
                   .next_in_bucket = bucket(hash)};
  bucket(hash) = block;
  std::ranges::copy(tokens, &tokens_[static_cast<size_t>(block) * block_size_]);
  if (parent != kNoBlock) ++nodes_[parent].num_children;
  return nodes_[block].serial;
}

void PrefixIndex::erase(BlockId block) {
  const Node& node = nodes_[block];
  CHECK(contains(block) && node.num_children == 0);
  if (node.is_idle) set_busy(block);
  if (node.parent != kNoBlock) --nodes_[node.parent].num_children;
  BlockId* link = &bucket(node.hash);
  while (*link != block) link = &nodes_[*link].next_in_bucket;
  *link = node.next_in_bucket;
  nodes_[block] = {};
}

void PrefixIndex::set_idle(BlockId block) {
  Node& node = nodes_[block];
  CHECK(contains(block) && !node.is_idle);
  node.is_idle = true;
  node.idle_before = last_idle_;
  (last_idle_ == kNoBlock ? first_idle_ : nodes_[last_idle_].idle_after) = block;
  last_idle_ = block;
  ++num_idle_;
}

void PrefixIndex::set_busy(BlockId block) {
  Node& node = nodes_[block];
  CHECK(contains(block) && node.is_idle);
  (node.idle_before == kNoBlock ? first_idle_ : nodes_[node.idle_before].idle_after) =
      node.idle_after;
  (node.idle_after == kNoBlock ? last_idle_ : nodes_[node.idle_after].idle_before) =
      node.idle_before;
  node.idle_before = node.idle_after = kNoBlock;
  node.is_idle = false;
  --num_idle_;
}

std::vector<BlockId> PrefixIndex::blocks() const {
  std::vector<BlockId> known;
  for (BlockId block = 0; block < static_cast<BlockId>(nodes_.size()); ++block) {
    if (contains(block)) known.push_back(block);
  }
  return known;
}

void PrefixIndex::check_invariants() const {
  std::vector<int> num_children(nodes_.size());
  const std::vector<BlockId> known = blocks();
  for (const BlockId block : known) {
    const Node& node = nodes_[block];
    CHECK(find(node.scope, node.parent, tokens_of(block)) == block);
    if (node.parent == kNoBlock) continue;
    ++num_children[node.parent];
    CHECK(contains(node.parent) && scope(node.parent) == node.scope);
    CHECK(node.is_idle || !is_idle(node.parent));
  }
  // Children come before their parents in the order of eviction.
  int num_idle = 0;
  std::vector<bool> seen(nodes_.size());
  for (BlockId block = first_idle_; block != kNoBlock; block = nodes_[block].idle_after) {
    const Node& node = nodes_[block];
    CHECK(contains(block) && node.is_idle);
    CHECK(node.parent == kNoBlock || !seen[node.parent]);
    CHECK((node.idle_after == kNoBlock) == (block == last_idle_));
    seen[block] = true;
    ++num_idle;
  }
  CHECK(num_idle == num_idle_);
  for (const BlockId block : known) {
    CHECK(nodes_[block].num_children == num_children[block]);
    CHECK(nodes_[block].is_idle == seen[block]);
  }
}

}  // namespace pagedinfer
