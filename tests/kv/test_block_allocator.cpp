#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "kv/block_allocator.h"
#include "tests/support/aborts.h"
#include "tests/support/workload.h"

using namespace pagedinfer;

namespace {

using Blocks = std::vector<BlockId>;
using Owners = std::vector<OwnerId>;

Blocks sorted(Blocks blocks) {
  std::ranges::sort(blocks);
  return blocks;
}

Blocks all_of(int num_blocks) {
  Blocks blocks(num_blocks);
  for (int i = 0; i < num_blocks; ++i) blocks[i] = i;
  return blocks;
}

}  // namespace

TEST_CASE("an allocator gives all or nothing until it is exhausted") {
  BlockAllocator allocator(10);
  const Blocks five = allocator.allocate(5, 1).value();
  CHECK(allocator.stats().free == 5);
  CHECK_FALSE(allocator.allocate(6, 2));
  CHECK(allocator.stats().free == 5);
  CHECK(allocator.find_leaked(Owners{1}).empty());  // nothing has changed
  const Blocks rest = allocator.allocate(5, 2).value();
  CHECK(allocator.stats().free == 0);
  CHECK_FALSE(allocator.allocate(1, 3));
  Blocks both = five;
  both.insert(both.end(), rest.begin(), rest.end());
  CHECK(sorted(both) == all_of(10));
  allocator.check_invariants();
}

TEST_CASE("freed blocks are handed out again, and only they") {
  BlockAllocator allocator(10);
  const Blocks kept = allocator.allocate(7, 1).value(), freed = allocator.allocate(3, 2).value();
  for (BlockId block : freed) allocator.release(block, 2);
  CHECK(allocator.stats().free == 3);
  CHECK(sorted(allocator.allocate(3, 3).value()) == sorted(freed));
}

TEST_CASE("allocating no block gives nothing and changes nothing") {
  for (int num_blocks : {0, 4}) {
    BlockAllocator allocator(num_blocks);
    CHECK(allocator.allocate(0, 1).value().empty());
    CHECK(allocator.stats().free == num_blocks);
    CHECK(allocator.find_leaked({}).empty());
  }
}

TEST_CASE("an allocator of no blocks is exhausted at once") {
  BlockAllocator allocator(0);
  CHECK_FALSE(allocator.allocate(1, 1));
  CHECK(allocator.stats().total == 0);
  allocator.check_invariants();
}

TEST_CASE("misuse of an allocator aborts") {
  BlockAllocator allocator(4);
  const Blocks mine = allocator.allocate(2, 1).value(), other = allocator.allocate(1, 2).value();
  allocator.release(mine[0], 1);
  CHECK(aborts([&] { allocator.release(mine[0], 1); }));  // twice
  CHECK(aborts([&] { allocator.release(3, 1); }));        // never allocated
  CHECK(aborts([&] { allocator.release(other[0], 1); }));
  CHECK(aborts([&] { allocator.release(4, 1); }));
  CHECK(aborts([&] { allocator.release(-1, 1); }));
  CHECK(aborts([&] { allocator.share(mine[0], 1); }));  // free
  CHECK(aborts([&] { allocator.share(mine[1], 1); }));  // one reference per owner
  CHECK(aborts([&] { allocator.share(mine[1], kNoOwner); }));
  CHECK(aborts([&] { (void)allocator.allocate(1, kNoOwner); }));
  CHECK(aborts([&] { (void)allocator.allocate(-1, 1); }));
  CHECK(aborts([] { BlockAllocator(-1); }));
}

TEST_CASE("a shared block is free when its last owner lets go, in any order") {
  Owners order = {1, 2, 3};
  do {
    BlockAllocator allocator(2);
    const BlockId block = allocator.allocate(1, 1).value()[0];
    allocator.share(block, 2);
    allocator.share(block, 3);
    for (int left = 3; left > 0; --left) {
      CHECK(allocator.num_refs(block) == left);
      CHECK(allocator.stats().free == 1);
      allocator.release(block, order[3 - left]);
      CHECK(aborts([&] { allocator.release(block, order[3 - left]); }));
      allocator.check_invariants();
    }
    CHECK(allocator.stats().free == 2);
    CHECK(allocator.num_refs(block) == 0);
  } while (std::ranges::next_permutation(order).found);
}

TEST_CASE("each block knows its owners") {
  BlockAllocator allocator(3);
  const Blocks three = allocator.allocate(3, 42).value();
  allocator.release(three[0], 42);
  allocator.release(three[1], 42);
  CHECK(allocator.owners(three[0]).empty());
  const Blocks two = allocator.allocate(2, 99).value();
  for (BlockId block : two) {
    CHECK(block != three[2]);
    CHECK(allocator.owners(block) == Owners{99});
  }
  CHECK(allocator.owners(three[2]) == Owners{42});
}

TEST_CASE("the audit finds blocks of owners that are gone") {
  BlockAllocator allocator(10);
  const Blocks first = allocator.allocate(5, 1).value(), second = allocator.allocate(3, 2).value();
  CHECK(allocator.find_leaked(Owners{1, 2}).empty());
  CHECK(allocator.find_leaked(Owners{1}) == sorted(second));
  CHECK(allocator.find_leaked({}).size() == 8);
  allocator.share(first[0], 2);  // half leaked
  CHECK(allocator.find_leaked(Owners{1}).size() == 4);
}

TEST_CASE("the audit finds blocks that no lease lists") {
  BlockAllocator allocator(10);
  const Blocks blocks = allocator.allocate(10, 1).value();
  CHECK(allocator.find_unreferenced(blocks).empty());
  const auto seven = std::span(blocks).first(7);
  CHECK(allocator.find_unreferenced(seven) == sorted(Blocks(blocks.begin() + 7, blocks.end())));
  CHECK(allocator.find_unreferenced({}) == all_of(10));
  allocator.release(blocks[9], 1);
  CHECK(allocator.find_unreferenced({}).size() == 9);  // a free block does not count
}

TEST_CASE("reclaiming frees what leaked and counts it") {
  BlockAllocator allocator(10);
  const Blocks first = allocator.allocate(5, 1).value();
  CHECK(allocator.allocate(3, 2));
  allocator.share(first[0], 2);
  CHECK(allocator.reclaim(Owners{1, 2}) == 0);
  CHECK(allocator.reclaim(Owners{1}) == 3);
  CHECK(allocator.owners(first[0]) == Owners{1});
  CHECK(allocator.find_leaked(Owners{1}).empty());
  CHECK(allocator.stats().used == 5);
  allocator.check_invariants();
}

TEST_CASE("an allocator agrees with a plain model") {
  WorkloadRandom random(9);
  BlockAllocator allocator(30);
  std::map<BlockId, std::set<OwnerId>> model;
  for (int i = 0; i < 20000; ++i) {
    const OwnerId owner = random.pick(1, 6);
    const BlockId block = random.pick(0, 29);
    if (random.one_in(3)) {
      const int count = random.pick(0, 8);
      const auto got = allocator.allocate(count, owner);
      REQUIRE(got.has_value() == (count + static_cast<int>(model.size()) <= 30));
      if (!got) continue;
      REQUIRE(static_cast<int>(got->size()) == count);
      for (BlockId b : *got) REQUIRE(model.emplace(b, std::set{owner}).second);
    } else if (model[block].contains(owner)) {
      allocator.release(block, owner);
      model[block].erase(owner);
    } else if (!model[block].empty()) {
      allocator.share(block, owner);
      model[block].insert(owner);
    } else {
      if (random.one_in(50)) REQUIRE(aborts([&] { allocator.release(block, owner); }));
    }
    std::erase_if(model, [](const auto& held) { return held.second.empty(); });
    const int used = static_cast<int>(model.size());
    REQUIRE(allocator.stats().used == used);
    REQUIRE(allocator.stats().free == 30 - used);
    const Owners owners = allocator.owners(block);
    const std::set<OwnerId> expected = model.contains(block) ? model[block] : std::set<OwnerId>{};
    REQUIRE(std::set<OwnerId>(owners.begin(), owners.end()) == expected);
    REQUIRE(allocator.num_refs(block) == static_cast<int>(expected.size()));
    allocator.check_invariants();
  }
}

TEST_CASE("two million blocks are handed out one by one") {
  constexpr int kBlocks = 2000000;
  BlockAllocator allocator(kBlocks);
  std::vector<bool> seen(kBlocks);
  for (int i = 0; i < kBlocks; ++i) seen[allocator.allocate(1, i).value()[0]] = true;
  CHECK(std::ranges::count(seen, true) == kBlocks);
  CHECK_FALSE(allocator.allocate(1, 0));
  CHECK(allocator.stats().used == kBlocks);
}
