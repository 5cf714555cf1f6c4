#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "kv/prefix_index.h"
#include "tests/support/aborts.h"
#include "tests/support/workload.h"

using namespace pagedinfer;

namespace {

using Tokens = std::vector<TokenId>;

}  // namespace

TEST_CASE("a block is found by its tokens and all before it, in its scope") {
  PrefixIndex index(8, 4);
  index.insert(0, kNoBlock, 3, some(4));
  index.insert(0, 3, 5, some(4, 4));
  CHECK(index.find(0, kNoBlock, some(4)) == 3);
  CHECK(index.find(0, 3, some(4, 4)) == 5);
  CHECK(index.find(0, kNoBlock, some(4, 4)) == kNoBlock);  // after other tokens
  CHECK(index.find(0, 5, some(4, 4)) == kNoBlock);
  CHECK(index.find(1, kNoBlock, some(4)) == kNoBlock);  // of another scope
  CHECK(aborts([&] { index.erase(3); }));               // the parent of a known block
  index.erase(5);
  CHECK(index.find(0, 3, some(4, 4)) == kNoBlock);
  index.check_invariants();
}

// With one hash for all, and with few, the tokens alone decide.
TEST_CASE("blocks of equal hashes are told apart") {
  for (const uint64_t mask : {uint64_t{0}, uint64_t{3}, ~uint64_t{0}}) {
    WorkloadRandom random(static_cast<int>(mask % 97));
    PrefixIndex index(64, 2, mask);
    std::map<std::tuple<int64_t, BlockId, Tokens>, BlockId> known;
    for (int step = 0; step < 3000; ++step) {
      const int64_t scope = random.pick(0, 1);
      BlockId parent = random.one_in(3) ? kNoBlock : random.pick(0, 63);
      if (parent != kNoBlock && (!index.contains(parent) || index.scope(parent) != scope)) continue;
      const Tokens tokens = random.tokens(2, 3);
      const auto it = known.find({scope, parent, tokens});
      REQUIRE(index.find(scope, parent, tokens) == (it == known.end() ? kNoBlock : it->second));
      const BlockId block = random.pick(0, 63);
      if (it == known.end() && !index.contains(block)) {
        index.insert(scope, parent, block, tokens);
        known[{scope, parent, tokens}] = block;
      } else if (it != known.end() && random.one_in(2)) {
        const bool is_parent = std::ranges::any_of(
            known, [&](const auto& entry) { return std::get<1>(entry.first) == it->second; });
        if (is_parent) continue;
        index.erase(it->second);
        known.erase(it);
      }
    }
    index.check_invariants();
  }
}
