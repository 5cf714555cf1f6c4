#include "commands/plan/request_sample.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/hash.h"

namespace pagedinfer {
namespace {

constexpr size_t kFirstEntries = 1024;
constexpr uint64_t kSeed = 0x243F6A8885A308D3;  // digits of pi; small numbers would hash to 0

uint64_t hash_tokens(uint64_t hash, std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) hash = hash_word(hash, static_cast<uint32_t>(token));
  return hash == 0 ? 1 : hash;
}

}  // namespace

RequestSample::RequestSample(int block_size, const Bounds& bounds)
    : block_size_(block_size), bounds_(bounds), blocks_(kFirstEntries) {}

void RequestSample::add(std::span<const TokenId> prompt, SampledRequest request) {
  const size_t size = static_cast<size_t>(block_size_);
  const bool has_blocks = request.shares && prompt.size() >= size;
  const uint64_t root = hash_tokens(kSeed, has_blocks ? prompt.first(size) : prompt);
  LargeGroup* const large = find_large(root);
  if (large != nullptr) ++large->seen;
  if (large != nullptr ? !keep_next(*large) : !is_kept(root)) return;
  const auto number = static_cast<int32_t>(requests_.size());
  uint64_t hash = kSeed;
  bool is_known = true;  // whether an earlier request has all blocks so far
  for (size_t at = 0; has_blocks && at + size <= prompt.size(); at += size) {
    hash = hash_tokens(hash, prompt.subspan(at, size));
    const int32_t owner = is_known ? find_entry(hash).request : -1;
    is_known = owner >= 0;
    if (is_known) {
      request.like = owner;
      request.num_shared = static_cast<int>(at + size);
    } else {
      insert(hash, number);
    }
  }
  requests_.push_back(request);
  roots_.push_back(root);
  while (std::ssize(requests_) > bounds_.requests || num_blocks_ > bounds_.blocks) thin();
}

bool RequestSample::is_kept(uint64_t root) const {
  if (num_dropped_bits_ == 0) return true;
  return num_dropped_bits_ < 64 && hash_word(root, 0) >> (64 - num_dropped_bits_) == 0;
}

RequestSample::LargeGroup* RequestSample::find_large(uint64_t root) {
  const auto found = std::ranges::find(large_, root, &LargeGroup::root);
  return found == large_.end() ? nullptr : &*found;
}

// Adds the groups that have become large. No request of theirs has been dropped yet.
void RequestSample::find_large_groups() {
  std::unordered_map<uint64_t, int64_t> sizes;
  for (const uint64_t root : roots_) ++sizes[root];
  for (const auto& [root, size] : sizes) {
    if (8 * size > std::ssize(roots_) && find_large(root) == nullptr) {
      large_.push_back({root, size});
    }
  }
}

// Decides whether to keep the group's next request: yes until the group has its share.
bool RequestSample::keep_next(LargeGroup& group) const {
  const int64_t share = num_dropped_bits_ < 63 ? group.seen >> num_dropped_bits_ : 0;
  if (group.kept >= share) return false;
  ++group.kept;
  return true;
}

// The entry of a hash, or the empty entry where it would be inserted.
RequestSample::Block& RequestSample::find_entry(uint64_t hash) {
  const size_t mask = blocks_.size() - 1;
  size_t at = hash & mask;
  while (blocks_[at].hash != 0 && blocks_[at].hash != hash) at = (at + 1) & mask;
  return blocks_[at];
}

void RequestSample::insert(uint64_t hash, int32_t request) {
  if (4 * static_cast<size_t>(num_blocks_) >= 3 * blocks_.size()) rebuild(2 * blocks_.size());
  find_entry(hash) = {hash, request};
  ++num_blocks_;
}

void RequestSample::rebuild(size_t num_entries) {
  const std::vector<Block> before = std::exchange(blocks_, std::vector<Block>(num_entries));
  for (const Block& block : before) {
    if (block.hash != 0) find_entry(block.hash) = block;
  }
}

// Drops about half of the requests, with their blocks. A large group loses its later requests,
// because `like` refers to earlier ones.
void RequestSample::thin() {
  find_large_groups();
  ++num_dropped_bits_;
  for (LargeGroup& group : large_) group.kept = 0;
  std::vector<int32_t> new_number(requests_.size(), -1);
  int32_t num_kept = 0;
  for (size_t i = 0; i < requests_.size(); ++i) {
    LargeGroup* const large = find_large(roots_[i]);
    if (large != nullptr ? !keep_next(*large) : !is_kept(roots_[i])) continue;
    SampledRequest request = requests_[i];
    if (request.like >= 0) request.like = new_number[request.like];  // its root is the same
    new_number[i] = num_kept;
    requests_[num_kept] = request;
    roots_[num_kept++] = roots_[i];
  }
  requests_.resize(num_kept);
  roots_.resize(num_kept);
  num_blocks_ = 0;
  for (Block& block : blocks_) {
    if (block.hash == 0) continue;
    block.request = new_number[block.request];
    if (block.request < 0) block = {};
    num_blocks_ += block.hash != 0;
  }
  rebuild(blocks_.size());
}

}  // namespace pagedinfer
