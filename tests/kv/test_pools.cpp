#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <set>
#include <stdexcept>

#include "core/error.h"
#include "kv/contiguous_pool.h"
#include "kv/paged_pool.h"
#include "tests/support/workload.h"

using namespace pagedinfer;

namespace {

const std::vector<TokenId> kTokens = Random(5).tokens(2000, 97);

std::span<const TokenId> some(int count) { return std::span(kTokens).first(count); }

int num_blocks(const KvLease& lease) { return static_cast<int>(lease.block_table.size()); }

// Fails unless the leases' first `lengths` positions live in slots of their own.
void check_slots(const KvPool& pool, const std::vector<KvLease>& leases,
                 const std::vector<int>& lengths) {
  std::set<int32_t> slots;
  int64_t num_positions = 0;
  for (size_t i = 0; i < leases.size(); ++i) {
    for (int p = 0; p < lengths[i]; ++p, ++num_positions)
      slots.insert(leases[i].slot(p, pool.block_size()));
  }
  REQUIRE(static_cast<int64_t>(slots.size()) == num_positions);
  if (slots.empty()) return;
  REQUIRE(*slots.begin() >= 0);
  REQUIRE(*slots.rbegin() < pool.stats().positions_total);
}

}  // namespace

TEST_CASE("a paged sequence takes the blocks its tokens need, and grows one by one") {
  for (int block_size : {1, 2, 4, 16, 17}) {
    for (int k : {1, 2, 3}) {
      for (int tokens : {k * block_size - 1, k * block_size, k * block_size + 1}) {
        CAPTURE(block_size);
        CAPTURE(tokens);
        PagedPool pool(8, block_size);
        KvLease lease = pool.open(some(tokens), 0).value();
        CHECK(num_blocks(lease) == (tokens + block_size - 1) / block_size);
        for (int n = tokens; n < (k + 2) * block_size; ++n) {
          REQUIRE(pool.grow(lease, n + 1));  // lazily: for the token that is written next
          CHECK(num_blocks(lease) == n / block_size + 1);
        }
        const KvLease before = lease;
        CHECK_FALSE(pool.grow(lease, 8 * block_size + 1));
        CHECK(lease.block_table == before.block_table);  // nothing has changed
        CHECK(pool.grow(lease, 8 * block_size));
        CHECK(pool.free_tokens() == 0);
        CHECK_FALSE(pool.grow(lease, 8 * block_size + 1));
        pool.close(lease);
        CHECK(pool.stats().positions_leased == 0);
      }
    }
  }
}

TEST_CASE("position p lives at block_table[p / B] + p % B") {
  PagedPool pool(3, 16);
  KvLease lease = pool.open(some(40), 0).value();
  REQUIRE(num_blocks(lease) == 3);
  for (int p = 0; p < 40; ++p) CHECK(lease.slot(p, 16) == lease.block_table[p / 16] + p % 16);
  for (int32_t first : lease.block_table) CHECK(first % 16 == 0);
}

TEST_CASE("a sequence of no tokens holds no block") {
  PagedPool pool(4, 16);
  KvLease lease = pool.open({}, 0).value();
  CHECK(num_blocks(lease) == 0);
  CHECK(pool.stats().positions_leased == 0);
  const std::vector<const KvLease*> active = {&lease};
  CHECK(pool.num_leaked(active) == 0);
  CHECK(pool.grow(lease, 1));
  CHECK(num_blocks(lease) == 1);
  pool.close(lease);
  CHECK(pool.free_tokens() == 64);
}

TEST_CASE("what does not fit changes nothing") {
  PagedPool pool(4, 4);
  KvLease lease = pool.open(some(9), 0).value();
  CHECK_FALSE(pool.open(some(5), 0));
  CHECK(pool.free_tokens() == 4);
  const std::vector<const KvLease*> active = {&lease};
  CHECK(pool.num_leaked(active) == 0);
  CHECK(pool.open(some(4), 0));
  CHECK(pool.free_tokens() == 0);
}

TEST_CASE("the reserve stays free when a paged sequence opens") {
  for (int reserve : {0, 1, 4, 5, 8}) {
    PagedPool pool(10, 4);
    const int usable = 10 - (reserve + 3) / 4;
    CHECK_FALSE(pool.open(some(4 * usable + 1), reserve));
    CHECK(pool.open(some(4 * usable), reserve));
  }
}

TEST_CASE("free blocks are told as tokens; reservations are only counted") {
  PagedPool paged(100, 16);
  KvLease lease = paged.open(some(30 * 16), 0).value();
  CHECK(paged.free_tokens() == 70 * 16);
  CHECK(paged.stats().utilization() == doctest::Approx(0.3));
  CHECK_FALSE(ContiguousPool(100, 10).free_tokens());
}

TEST_CASE("closing the middle one frees its blocks alone") {
  PagedPool pool(20, 4);
  std::vector<KvLease> leases;
  for (int tokens : {5, 13, 8}) leases.push_back(pool.open(some(tokens), 0).value());
  const auto freed = leases[1].block_table;
  pool.close(leases[1]);
  CHECK(pool.free_tokens() == 16 * 4);
  std::vector<const KvLease*> active = {&leases[0], &leases[2]};
  CHECK(pool.num_leaked(active) == 0);
  const KvLease next = pool.open(some(16), 0).value();
  CHECK(std::set(freed.begin(), freed.end()) ==
        std::set(next.block_table.begin(), next.block_table.end()));
}

TEST_CASE("any free blocks serve any sequence, however scattered") {
  PagedPool pool(64, 4);
  std::vector<KvLease> leases;
  for (int i = 0; i < 64; ++i) leases.push_back(pool.open(some(4), 0).value());
  for (int i = 0; i < 64; i += 2) pool.close(leases[i]);  // every other block
  KvLease large = pool.open(some(32 * 4), 0).value();
  CHECK(num_blocks(large) == 32);
  CHECK(pool.free_tokens() == 0);
}

TEST_CASE("both pools give slots of their own, and get everything back") {
  using MakePool = std::function<std::unique_ptr<KvPool>(Random&)>;
  const MakePool paged = [](Random& random) {
    return std::make_unique<PagedPool>(random.pick(1, 60), random.pick(1, 20));
  };
  const MakePool contiguous = [](Random& random) {
    return std::make_unique<ContiguousPool>(random.pick(60, 400), 60);
  };
  for (const MakePool& make_pool : {paged, contiguous}) {
    for (int trial = 0; trial < 100; ++trial) {
      Random random(trial);
      const std::unique_ptr<KvPool> pool = make_pool(random);
      scramble(*pool, random);
      std::vector<KvLease> leases;
      std::vector<int> lengths;
      for (int i = 0; i < 60; ++i) {
        const int tokens = random.pick(1, 60);
        const int at = leases.empty() ? -1 : random.pick(0, static_cast<int>(leases.size()) - 1);
        if (random.one_in(2)) {
          if (auto lease = pool->open(some(tokens), 0)) {
            leases.push_back(*lease);
            lengths.push_back(tokens);
          }
        } else if (at >= 0 && random.one_in(3)) {
          pool->close(leases[at]);
          CHECK(leases[at].block_table.empty());
          leases.erase(leases.begin() + at);
          lengths.erase(lengths.begin() + at);
        } else if (at >= 0 && lengths[at] < 60 && pool->grow(leases[at], lengths[at] + 1)) {
          ++lengths[at];
        }
        check_slots(*pool, leases, lengths);
        std::vector<const KvLease*> active;
        for (const KvLease& lease : leases) active.push_back(&lease);
        REQUIRE(pool->num_leaked(active) == 0);
        pool->check_invariants();
      }
      for (KvLease& lease : leases) pool->close(lease);
      CHECK(pool->stats().positions_leased == 0);
    }
  }
}

TEST_CASE("a lease that was lost is found and reclaimed") {
  PagedPool paged(10, 16);
  ContiguousPool contiguous(640, 64);
  for (KvPool* pool : {static_cast<KvPool*>(&paged), static_cast<KvPool*>(&contiguous)}) {
    KvLease kept = pool->open(some(20), 0).value();
    const std::vector<const KvLease*> active = {&kept};
    const int64_t leased = pool->stats().positions_leased;
    (void)pool->open(some(50), 0).value();  // and nobody remembers it
    const int num_lost =
        static_cast<int>((pool->stats().positions_leased - leased) / pool->block_size());
    CHECK(num_lost == (pool == &paged ? 4 : 1));
    CHECK(pool->num_leaked(active) == num_lost);
    CHECK(pool->reclaim(active) == num_lost);
    CHECK(pool->num_leaked(active) == 0);
    CHECK(pool->stats().positions_leased == leased);
    pool->check_invariants();
    pool->close(kept);
    CHECK(pool->stats().positions_leased == 0);
  }
}

TEST_CASE("a block that its own lease forgot is found and reclaimed") {
  PagedPool pool(10, 4);
  KvLease lease = pool.open(some(12), 0).value();
  lease.block_table.pop_back();
  const std::vector<const KvLease*> active = {&lease};
  CHECK(pool.num_leaked(active) == 1);
  CHECK(pool.reclaim(active) == 1);
  CHECK(pool.num_leaked(active) == 0);
  pool.close(lease);
  CHECK(pool.free_tokens() == 40);
}

TEST_CASE("a lease is closed once") {
  PagedPool pool(4, 4);
  KvLease lease = pool.open(some(8), 0).value();
  KvLease copy = lease;
  pool.close(lease);
  pool.close(lease);  // empty by now
  CHECK_THROWS_AS(pool.close(copy), std::logic_error);
  KvLease other = pool.open(some(8), 0).value();
  CHECK_THROWS_AS(pool.close(copy), std::logic_error);
  CHECK(pool.free_tokens() == 8);
}

TEST_CASE("reservations are as many as fit whole") {
  for (const auto& [positions, expected] : {std::pair(20, 1), {39, 1}, {40, 2}, {59, 2}}) {
    ContiguousPool pool(positions, 20);
    CHECK(pool.stats().positions_total == expected * 20);
    for (int i = 0; i < expected; ++i) CHECK(pool.open(some(1 + i), 1000));
    CHECK_FALSE(pool.open(some(1), 0));
    CHECK(pool.stats().utilization() == 1.0);
  }
}

TEST_CASE("a pool that could hold nothing is refused by the flag's name") {
  const auto message_of = [](const std::function<void()>& make) {
    try {
      make();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string contiguous = message_of([] { ContiguousPool(19, 20); });
  for (const char* part : {"19 ", " 20", "--num-blocks", "--kv-memory", "--max-model-len"})
    CHECK(contiguous.find(part) != std::string::npos);
  CHECK(message_of([] { PagedPool(0, 16); }).find("--num-blocks") != std::string::npos);
  // More positions than an index of the cache can number.
  CHECK(message_of([] { PagedPool(1 << 27, 16); }).find("--num-blocks") != std::string::npos);
  CHECK(message_of([] { ContiguousPool(int64_t{1} << 31, 2); }).find("--kv") != std::string::npos);
}
