#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>

#include "core/error.h"
#include "kv/contiguous_pool.h"
#include "kv/paged_pool.h"
#include "tests/support/aborts.h"
#include "tests/support/workload.h"

using namespace pagedinfer;

namespace {

int num_blocks(const KvLease& lease) { return static_cast<int>(lease.block_table.size()); }

// Fails unless the leases' first `lengths` positions live in slots of their own.
void check_slots(const KvPool& pool, const std::vector<KvLease>& leases,
                 const std::vector<int>& lengths) {
  std::set<int32_t> slots;
  int64_t num_positions = 0;
  for (size_t i = 0; i < leases.size(); ++i) {
    for (int p = 0; p < lengths[i]; ++p, ++num_positions) {
      slots.insert(leases[i].slot(p, pool.block_size()));
    }
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
        KvLease lease = pool.open(some(tokens), 0, kShareNone).value();
        CHECK(num_blocks(lease) == (tokens + block_size - 1) / block_size);
        for (int n = tokens; n < (k + 2) * block_size; ++n) {
          REQUIRE(pool.grow(lease, n, n + 1));  // lazily: for the token that is written next
          CHECK(num_blocks(lease) == n / block_size + 1);
        }
        const KvLease before = lease;
        CHECK_FALSE(pool.grow(lease, tokens, 8 * block_size + 1));
        CHECK(lease.block_table == before.block_table);  // nothing has changed
        CHECK(pool.grow(lease, tokens, 8 * block_size));
        CHECK(pool.free_tokens() == 0);
        CHECK_FALSE(pool.grow(lease, tokens, 8 * block_size + 1));
        pool.close(lease);
        CHECK(pool.stats().positions_leased == 0);
      }
    }
  }
}

TEST_CASE("position p lives at block_table[p / B] + p % B") {
  PagedPool pool(3, 16);
  KvLease lease = pool.open(some(40), 0, kShareNone).value();
  REQUIRE(num_blocks(lease) == 3);
  for (int p = 0; p < 40; ++p) CHECK(lease.slot(p, 16) == lease.block_table[p / 16] + p % 16);
  for (int32_t first : lease.block_table) CHECK(first % 16 == 0);
}

TEST_CASE("a sequence of no tokens holds no block") {
  PagedPool pool(4, 16);
  KvLease lease = pool.open({}, 0, kShareNone).value();
  CHECK(num_blocks(lease) == 0);
  CHECK(pool.stats().positions_leased == 0);
  const std::vector<const KvLease*> active = {&lease};
  CHECK(pool.num_leaked(active) == 0);
  CHECK(pool.grow(lease, 0, 1));
  CHECK(num_blocks(lease) == 1);
  pool.close(lease);
  CHECK(pool.free_tokens() == 64);
}

TEST_CASE("what does not fit changes nothing") {
  PagedPool pool(4, 4);
  KvLease lease = pool.open(some(9), 0, kShareNone).value();
  CHECK_FALSE(pool.open(some(5), 0, kShareNone));
  CHECK(pool.free_tokens() == 4);
  const std::vector<const KvLease*> active = {&lease};
  CHECK(pool.num_leaked(active) == 0);
  CHECK(pool.open(some(4), 0, kShareNone));
  CHECK(pool.free_tokens() == 0);
}

TEST_CASE("the reserve stays free when a paged sequence opens") {
  for (int reserve : {0, 1, 4, 5, 8}) {
    PagedPool pool(10, 4);
    const int usable = 10 - (reserve + 3) / 4;
    CHECK_FALSE(pool.open(some(4 * usable + 1), reserve, kShareNone));
    CHECK(pool.open(some(4 * usable), reserve, kShareNone));
  }
}

TEST_CASE("free blocks are told as tokens; reservations are only counted") {
  PagedPool paged(100, 16);
  KvLease lease = paged.open(some(30 * 16), 0, kShareNone).value();
  CHECK(paged.free_tokens() == 70 * 16);
  CHECK(paged.stats().utilization() == doctest::Approx(0.3));
  CHECK_FALSE(ContiguousPool(100, 10).free_tokens());
}

TEST_CASE("closing the middle one frees its blocks alone") {
  PagedPool pool(20, 4);
  std::vector<KvLease> leases;
  for (int tokens : {5, 13, 8}) leases.push_back(pool.open(some(tokens), 0, kShareNone).value());
  const auto freed = leases[1].block_table;
  pool.close(leases[1]);
  CHECK(pool.free_tokens() == 16 * 4);
  std::vector<const KvLease*> active = {&leases[0], &leases[2]};
  CHECK(pool.num_leaked(active) == 0);
  const KvLease next = pool.open(some(16), 0, kShareNone).value();
  CHECK(std::set(freed.begin(), freed.end()) ==
        std::set(next.block_table.begin(), next.block_table.end()));
}

TEST_CASE("any free blocks serve any sequence, however scattered") {
  PagedPool pool(64, 4);
  std::vector<KvLease> leases;
  for (int i = 0; i < 64; ++i) leases.push_back(pool.open(some(4), 0, kShareNone).value());
  for (int i = 0; i < 64; i += 2) pool.close(leases[i]);  // every other block
  KvLease large = pool.open(some(32 * 4), 0, kShareNone).value();
  CHECK(num_blocks(large) == 32);
  CHECK(pool.free_tokens() == 0);
}

TEST_CASE("both pools give slots of their own, and get everything back") {
  using MakePool = std::function<std::unique_ptr<KvPool>(WorkloadRandom&)>;
  const MakePool paged = [](WorkloadRandom& random) {
    return std::make_unique<PagedPool>(random.pick(1, 60), random.pick(1, 20));
  };
  const MakePool contiguous = [](WorkloadRandom& random) {
    return std::make_unique<ContiguousPool>(random.pick(60, 400), 60);
  };
  for (const MakePool& make_pool : {paged, contiguous}) {
    for (int trial = 0; trial < 100; ++trial) {
      WorkloadRandom random(trial);
      const std::unique_ptr<KvPool> pool = make_pool(random);
      scramble(*pool, random);
      std::vector<KvLease> leases;
      std::vector<int> lengths;
      for (int i = 0; i < 60; ++i) {
        const int tokens = random.pick(1, 60);
        const int at = leases.empty() ? -1 : random.pick(0, static_cast<int>(leases.size()) - 1);
        if (random.one_in(2)) {
          if (auto lease = pool->open(some(tokens), 0, kShareNone)) {
            leases.push_back(*lease);
            lengths.push_back(tokens);
          }
        } else if (at >= 0 && random.one_in(3)) {
          pool->close(leases[at]);
          CHECK(leases[at].block_table.empty());
          leases.erase(leases.begin() + at);
          lengths.erase(lengths.begin() + at);
        } else if (at >= 0 && lengths[at] < 60 &&
                   pool->grow(leases[at], lengths[at], lengths[at] + 1)) {
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
    KvLease kept = pool->open(some(20), 0, kShareNone).value();
    const std::vector<const KvLease*> active = {&kept};
    const int64_t leased = pool->stats().positions_leased;
    (void)pool->open(some(50), 0, kShareNone).value();  // the lease is lost
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
  KvLease lease = pool.open(some(12), 0, kShareNone).value();
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
  KvLease lease = pool.open(some(8), 0, kShareNone).value();
  KvLease copy = lease;
  pool.close(lease);
  CHECK(lease.owner == kNoOwner);
  CHECK(lease.scope == kShareNone);
  CHECK(lease.num_cached == 0);
  pool.close(lease);  // empty by now
  CHECK(aborts([&] { pool.close(copy); }));
  KvLease other = pool.open(some(8), 0, kShareNone).value();
  CHECK(aborts([&] { pool.close(copy); }));
  CHECK(pool.free_tokens() == 8);
}

namespace {

// A cache of tokens, and leases that find their own in it.
struct Cache {
  explicit Cache(KvPool& p) : pool(p), slots(p.stats().positions_total, -1) {}

  void write(const KvLease& lease, int position, TokenId token) {
    slots[lease.slot(position, pool.block_size())] = token;
  }
  void copy() {
    std::set<int32_t> sources, destinations;
    for (const auto& [source, destination, count] : pool.take_copies()) {
      REQUIRE(count > 0);
      REQUIRE(count <= pool.block_size());
      std::copy_n(slots.begin() + source, count, slots.begin() + destination);
      sources.insert(source);
      REQUIRE(destinations.insert(destination).second);
    }
    for (const int32_t source : sources) REQUIRE(!destinations.contains(source));
  }
  bool holds(const KvLease& lease, const std::vector<TokenId>& tokens) const {
    for (int p = 0; p < std::ssize(tokens); ++p) {
      if (slots[lease.slot(p, pool.block_size())] != tokens[p]) return false;
    }
    return true;
  }

  KvPool& pool;
  std::vector<TokenId> slots;
};

}  // namespace

// Leases fork, grow and end in any order, forks of forks before the copies are taken too. A lease
// may end after it has grown and before the copies are carried out.
TEST_CASE("a fork finds its parent's tokens once the copies are carried out, and its own after") {
  long num_forks = 0, num_refused = 0;
  for (int trial = 0; trial < 200; ++trial) {
    INFO("trial " << trial);
    WorkloadRandom random(trial);
    std::unique_ptr<KvPool> pool;
    if (random.one_in(2)) {
      pool = std::make_unique<PagedPool>(random.pick(6, 40), random.pick(1, 6));
    } else {
      pool = std::make_unique<ContiguousPool>(random.pick(24, 200), 24);
    }
    Cache cache(*pool);
    std::vector<KvLease> leases;
    std::vector<std::vector<TokenId>> tokens;
    for (int step = 0; step < 60; ++step) {
      const auto any = [&] { return random.pick(0, static_cast<int>(leases.size()) - 1); };
      if (leases.empty() || random.one_in(5)) {
        const std::vector<TokenId> prompt = random.tokens(random.pick(1, 12), 97);
        if (auto lease = pool->open(prompt, 0, kShareNone)) {
          for (int p = 0; p < std::ssize(prompt); ++p) cache.write(*lease, p, prompt[p]);
          leases.push_back(*lease);
          tokens.push_back(prompt);
        }
      }
      for (int i = random.pick(0, 3); i > 0 && !leases.empty(); --i) {
        const int parent = any();
        const int length = static_cast<int>(tokens[parent].size());
        auto child = pool->fork(leases[parent], length);
        (child ? num_forks : num_refused) += 1;
        if (!child) continue;
        leases.push_back(*child);
        tokens.push_back(std::vector(tokens[parent]));
        if (random.one_in(4)) {
          const int ended = any();
          pool->close(leases[ended]);
          leases.erase(leases.begin() + ended);
          tokens.erase(tokens.begin() + ended);
        }
      }
      if (pool->block_size() == 24) cache.copy();  // a reservation is copied by fork()
      std::vector<size_t> grown;
      for (size_t i = 0; i < leases.size(); ++i) {
        const int length = static_cast<int>(tokens[i].size());
        if (length < 24 && pool->grow(leases[i], length, length + 1)) grown.push_back(i);
      }
      if (!grown.empty() && random.one_in(4)) {
        const auto last = static_cast<int>(grown.size()) - 1;
        const size_t ended = grown[random.pick(0, last)];
        std::erase(grown, ended);
        pool->close(leases[ended]);
        tokens[ended].clear();
      }
      cache.copy();
      for (const size_t i : grown) {
        const auto length = static_cast<int>(tokens[i].size());
        tokens[i].push_back(random.pick(0, 96));
        cache.write(leases[i], length, tokens[i].back());
      }
      for (size_t i = leases.size(); i-- > 0;) {
        if (!leases[i].block_table.empty()) continue;
        leases.erase(leases.begin() + static_cast<std::ptrdiff_t>(i));
        tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(i));
      }
      std::vector<const KvLease*> active;
      for (size_t i = 0; i < leases.size(); ++i) {
        REQUIRE(cache.holds(leases[i], tokens[i]));
        active.push_back(&leases[i]);
      }
      REQUIRE(pool->num_leaked(active) == 0);
      pool->check_invariants();
    }
    for (KvLease& lease : leases) pool->close(lease);
    CHECK(pool->stats().positions_leased == 0);
  }
  CHECK(num_forks > 1000);
  CHECK(num_refused > 100);
}

TEST_CASE("a fork that finds no room changes nothing") {
  ContiguousPool reservation(20, 20);
  KvLease only = reservation.open(some(9), 0, kShareNone).value();
  CHECK_FALSE(reservation.fork(only, 9));
  CHECK(reservation.take_copies().empty());
}

TEST_CASE("the source of a copy is held until the copy is taken, and is no leak") {
  PagedPool pool(4, 4);
  KvLease parent = pool.open(some(6), 0, kShareNone).value();
  KvLease child = pool.fork(parent, 6).value();
  REQUIRE(pool.grow(child, 6, 7));
  const std::vector<const KvLease*> active = {&child};
  pool.close(parent);
  CHECK_FALSE(pool.open(some(5), 0, kShareNone));
  CHECK(pool.num_leaked(active) == 0);
  CHECK(pool.reclaim(active) == 0);
  pool.check_invariants();

  SUBCASE("taken") {
    CHECK(pool.take_copies().size() == 1);
    CHECK(pool.take_copies().empty());
    CHECK(pool.free_tokens() == 8);
  }
  SUBCASE("no longer needed") {
    pool.close(child);
    CHECK(pool.take_copies().empty());
    CHECK(pool.free_tokens() == 16);
  }
  pool.check_invariants();
}

TEST_CASE("a pool of reservations finds no tokens in the cache") {
  ContiguousPool pool(40, 20);
  KvLease lease = pool.open(some(9), 0, kShareAll).value();
  std::vector<PublishedBlock> published;
  pool.publish(lease, some(9), published);
  CHECK(published.empty());
  CHECK(pool.num_findable(lease, some(9)) == 0);
  CHECK(pool.open(some(9), 0, kShareAll).value().num_cached == 0);
  CHECK(pool.stats().positions_saved == 0);
}

// 32,768 positions: eight reservations of 4,096, or as many sequences as their tokens fill.
TEST_CASE("short sequences are as many as their tokens fill, not as their longest could") {
  const std::vector<TokenId> tokens = WorkloadRandom(6).tokens(4096, 97);
  for (const auto& [length, expected] :
       {std::pair(256, 128), {512, 64}, {1024, 32}, {2048, 16}, {4096, 8}}) {
    CAPTURE(length);
    const auto count = [&](KvPool& pool) {
      int num_sequences = 0;
      while (pool.open(std::span(tokens).first(length), 0, kShareNone)) ++num_sequences;
      return num_sequences;
    };
    PagedPool paged(2048, 16);
    ContiguousPool contiguous(8 * 4096, 4096);
    CHECK(count(paged) == expected);
    CHECK(count(contiguous) == 8);
    CHECK(paged.stats().utilization() == 1.0);
  }
}

// Lengths of 64 to 511 tokens: on average half of a last block is empty.
TEST_CASE("above 90 % of the leased positions hold a token at blocks of 16") {
  WorkloadRandom random(7);
  PagedPool pool(4096, 16);
  const std::vector<TokenId> tokens = random.tokens(511, 97);
  int64_t num_tokens = 0;
  for (int i = 0; i < 100; ++i) {
    const int length = random.pick(64, 511);
    REQUIRE(pool.open(std::span(tokens).first(length), 0, kShareNone));
    num_tokens += length;
  }
  CHECK(num_tokens > 0.9 * static_cast<double>(pool.stats().positions_leased));
}

TEST_CASE("reservations are as many as fit whole") {
  for (const auto& [positions, expected] : {std::pair(20, 1), {39, 1}, {40, 2}, {59, 2}}) {
    ContiguousPool pool(positions, 20);
    CHECK(pool.stats().positions_total == expected * 20);
    for (int i = 0; i < expected; ++i) CHECK(pool.open(some(1 + i), 1000, kShareNone));
    CHECK_FALSE(pool.open(some(1), 0, kShareNone));
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
  for (const char* part : {"19 ", " 20", "--num-blocks", "--kv-memory", "--max-model-len"}) {
    CHECK(contiguous.find(part) != std::string::npos);
  }
  CHECK(message_of([] { PagedPool(0, 16); }).find("--num-blocks") != std::string::npos);
  // More positions than an index of the cache can number.
  CHECK(message_of([] { PagedPool(1 << 27, 16); }).find("--num-blocks") != std::string::npos);
  CHECK(message_of([] { ContiguousPool(int64_t{1} << 31, 2); }).find("--kv") != std::string::npos);
}
