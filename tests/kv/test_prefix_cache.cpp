// Blocks that are found by their tokens: what open() and adopt() share, what is evicted, and that a
// lease finds its own tokens whatever others do.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "kv/paged_pool.h"
#include "tests/support/aborts.h"
#include "tests/support/workload.h"

using namespace pagedinfer;

namespace {

using Tokens = std::vector<TokenId>;

Tokens joined(std::span<const TokenId> a, std::span<const TokenId> b) {
  Tokens all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

KvLease open_and_publish(PagedPool& pool, std::span<const TokenId> tokens,
                         ShareScope scope = kShareAll) {
  KvLease lease = pool.open(tokens, 0, scope).value();
  std::vector<PublishedBlock> published;
  pool.publish(lease, tokens, published);
  return lease;
}

int64_t num_leased(const PagedPool& pool) {
  return pool.stats().positions_leased / pool.block_size();
}

}  // namespace

TEST_CASE("a lease takes over the full blocks that another has published") {
  PagedPool pool(20, 4);
  KvLease first = open_and_publish(pool, some(14));
  CHECK(first.num_published == 3);
  KvLease same = pool.open(joined(some(12), some(9, 100)), 0, kShareAll).value();
  CHECK(same.num_cached == 12);
  CHECK(std::equal(same.block_table.begin(), same.block_table.begin() + 3,
                   first.block_table.begin()));
  CHECK(num_leased(pool) == 4 + 3);
  CHECK(pool.stats().positions_saved == 3 * 4);
  CHECK(pool.open(some(14), 0, kShareNone).value().num_cached == 0);
  CHECK(pool.open(some(14), 0, 1).value().num_cached == 0);
}

TEST_CASE("a prompt of which every block is known is found whole") {
  PagedPool pool(20, 4);
  KvLease first = open_and_publish(pool, some(12));
  KvLease second = pool.open(some(12), 0, kShareAll).value();
  CHECK(second.num_cached == 12);
  CHECK(num_leased(pool) == 3);
}

TEST_CASE("what was published later is adopted in place of own blocks") {
  PagedPool pool(20, 4);
  KvLease late = pool.open(some(18), 0, kShareAll).value();
  KvLease early = open_and_publish(pool, some(13));
  CHECK(num_leased(pool) == 5 + 4);
  CHECK(pool.num_findable(late, some(18)) == 12);
  pool.adopt(late, some(18));
  CHECK(late.num_cached == 12);
  CHECK(num_leased(pool) == 2 + 4);
  CHECK(pool.num_findable(late, some(18)) == 0);
  pool.check_invariants();
  pool.close(early);
  CHECK(num_leased(pool) == 5);  // late's
}

TEST_CASE("of two blocks with the same content one stays") {
  PagedPool pool(20, 4);
  KvLease one = pool.open(some(8), 0, kShareAll).value();
  KvLease two = pool.open(some(8), 0, kShareAll).value();
  std::vector<PublishedBlock> published;
  pool.publish(one, some(8), published);
  pool.publish(two, some(8), published);
  CHECK(published.size() == 2);
  CHECK(one.block_table == two.block_table);
  CHECK(num_leased(pool) == 2);
}

TEST_CASE("blocks without a lease are found again, until their room is needed") {
  PagedPool pool(6, 4);
  KvLease lease = open_and_publish(pool, some(12));
  pool.close(lease);
  CHECK(pool.stats().positions_leased == 0);
  CHECK(pool.stats().positions_reusable == 12);
  CHECK(pool.free_tokens() == 24);
  lease = pool.open(some(14), 0, kShareAll).value();
  CHECK(lease.num_cached == 12);
  pool.close(lease);
  lease = pool.open(some(24, 500), 0, kShareAll).value();  // the whole pool
  CHECK(pool.stats().positions_reusable == 0);
  CHECK(pool.stats().num_evicted == 3);
  pool.close(lease);
  CHECK(pool.open(some(14), 0, kShareAll).value().num_cached == 0);
}

TEST_CASE("the least recently used block goes first, and of a prefix its end") {
  PagedPool pool(8, 4);
  KvLease a = open_and_publish(pool, some(12)), b = open_and_publish(pool, some(8, 300));
  pool.close(a);
  pool.close(b);
  a = pool.open(some(12), 0, kShareAll).value();  // used again
  pool.close(a);
  KvLease other = pool.open(some(16, 600), 0, kShareAll).value();  // evicts one block
  CHECK(pool.stats().num_evicted == 1);
  const KvLease probe = {.scope = kShareAll};
  CHECK(pool.num_findable(probe, some(12)) == 12);
  CHECK(pool.num_findable(probe, some(8, 300)) == 4);
  pool.close(other);
  other = pool.open(some(24, 600), 0, kShareAll).value();
  CHECK(pool.num_findable(probe, some(8, 300)) == 0);
  CHECK(pool.num_findable(probe, some(12)) == 8);
}

TEST_CASE("a reusable block that is found is no room for the rest of the prompt") {
  PagedPool pool(4, 4);
  KvLease lease = open_and_publish(pool, some(12));
  pool.close(lease);
  CHECK_FALSE(pool.open(joined(some(12), some(5, 100)), 0, kShareAll));  // needs two more blocks
  CHECK(pool.stats().positions_reusable == 12);
  CHECK_FALSE(pool.open(joined(some(12), some(4, 100)), 1, kShareAll));  // the reserve
  CHECK(pool.open(joined(some(12), some(4, 100)), 0, kShareAll).value().num_cached == 12);
}

TEST_CASE("blocks of a group are free when its last lease ends") {
  PagedPool pool(8, 4);
  KvLease one = open_and_publish(pool, some(12), 7);
  KvLease two = pool.open(some(14), 0, 7).value();
  CHECK(two.num_cached == 12);
  pool.close(one);
  KvLease three = pool.open(some(12), 0, 7).value();
  CHECK(three.num_cached == 12);
  pool.close(two);
  pool.close(three);
  CHECK(pool.free_tokens() == 32);
  CHECK(pool.stats().positions_reusable == 0);
}

TEST_CASE("what is withdrawn is not found, and is free") {
  PagedPool pool(8, 4);
  KvLease lease = pool.open(some(12), 0, kShareAll).value();
  std::vector<PublishedBlock> before, after;
  pool.publish(lease, some(5), before);
  pool.publish(lease, some(12), after);
  REQUIRE(before.size() == 1);
  REQUIRE(after.size() == 2);
  CHECK(aborts([&] { pool.withdraw(after); }));  // while it is held
  pool.close(lease);
  pool.withdraw(after);
  CHECK(pool.stats().positions_reusable == 4);
  CHECK(pool.num_findable({.scope = kShareAll}, some(12)) == 4);
  pool.check_invariants();
  SUBCASE("not again where the block was used anew") {
    lease = open_and_publish(pool, some(32, 700));
    pool.close(lease);
    pool.withdraw(before);
    CHECK(pool.stats().positions_reusable == 32);
  }
}

TEST_CASE("a placeholder is never published") {
  PagedPool pool(8, 4);
  const Tokens tokens = {1, 2, 3, -1};
  KvLease lease = pool.open(tokens, 0, kShareAll).value();
  std::vector<PublishedBlock> published;
  CHECK(aborts([&] { pool.publish(lease, tokens, published); }));
}

TEST_CASE("four beams over 128 tokens hold their 8 blocks once, and so do 2, 8 and 16") {
  for (const int num_beams : {2, 4, 8, 16}) {
    PagedPool pool(64, 16);
    std::vector<KvLease> beams = {pool.open(some(128), 0, kShareNone).value()};
    while (std::ssize(beams) < num_beams) beams.push_back(pool.fork(beams.front(), 128).value());
    CHECK(num_leased(pool) == 8);  // a fork costs no block
    CHECK(pool.take_copies().empty());
    for (KvLease& beam : beams) REQUIRE(pool.grow(beam, 128, 129));
    CHECK(num_leased(pool) == 8 + num_beams);
    CHECK(pool.stats().positions_saved == 16 * 8 * (num_beams - 1));
    CHECK(pool.take_copies().empty());  // a new block each
  }
}

TEST_CASE("the first write to a block that others hold copies it, and the last holder's does not") {
  PagedPool pool(64, 16);
  KvLease one = pool.open(some(45), 0, kShareNone).value();
  CHECK(num_leased(pool) == 3);
  KvLease two = pool.fork(one, 45).value(), three = pool.fork(one, 45).value();
  const int32_t original = one.block_table[2];
  for (KvLease* lease : {&one, &two, &three}) REQUIRE(pool.grow(*lease, 45, 46));
  CHECK(num_leased(pool) == 2 + 3);
  CHECK(three.block_table[2] == original);
  const std::vector<KvCopy> copies = pool.take_copies();
  REQUIRE(copies.size() == 2);
  for (const KvCopy& copy : copies) {
    CHECK(copy.source == original);
    CHECK(copy.count == 45 - 32);
    CHECK((copy.destination == one.block_table[2] || copy.destination == two.block_table[2]));
  }
  pool.check_invariants();
}

TEST_CASE("a hundred requests on a prefix of 1,024 tokens hold it once") {
  PagedPool pool(1000, 16);
  std::vector<KvLease> leases = {open_and_publish(pool, some(1024))};
  for (int i = 1; i <= 100; ++i) {
    const Tokens prompt = joined(some(1024), some(20, 1024 + i));
    leases.push_back(pool.open(prompt, 0, kShareAll).value());
    CHECK(leases.back().num_cached == 1024);
  }
  CHECK(num_leased(pool) == 64 + 100 * 2);
}

// A cache of tokens beside the pool shows what each lease would read.
TEST_CASE("a lease finds its own tokens, whatever others share, write and evict") {
  long num_found = 0, num_adopted = 0, num_copies = 0, num_withdrawn = 0, num_evicted = 0;
  for (int trial = 0; trial < 150; ++trial) {
    INFO("trial " << trial);
    WorkloadRandom random(trial);
    const int block_size = random.pick(1, 5);
    const uint64_t mask = random.one_in(3) ? 1 : ~uint64_t{0};
    PagedPool pool(random.pick(8, 40), block_size, mask);
    Tokens cache(static_cast<size_t>(pool.stats().positions_total), -1);
    struct Holder {
      KvLease lease;
      Tokens tokens;
      int num_held = 0;
    };
    std::vector<Holder> holders;
    for (int step = 0; step < 80; ++step) {
      std::vector<PublishedBlock> published;
      std::vector<std::pair<size_t, int>> writes;  // holder and position
      std::set<size_t> in_step;
      const auto write = [&](size_t i, int end) {
        Holder& h = holders[i];
        for (int p = h.num_held; p < end; ++p) {
          if (p >= h.lease.num_cached) writes.emplace_back(i, p);
        }
        h.num_held = end;
        in_step.insert(i);
      };
      if (holders.empty() || random.one_in(3)) {
        const Tokens prompt = random.tokens(random.pick(1, 14), 2);
        const ShareScope scope = random.pick(-1, 1);
        if (auto lease = pool.open(prompt, 0, scope)) {
          num_found += lease->num_cached;
          const int held = lease->num_cached;
          holders.push_back({*lease, prompt, held});
        }
      }
      for (int i = random.pick(0, 2); i > 0 && !holders.empty(); --i) {
        const Holder h = holders[random.pick(0, static_cast<int>(holders.size()) - 1)];
        if (auto child = pool.fork(h.lease, h.num_held)) {
          holders.push_back({*child, h.tokens, h.num_held});
          holders.back().tokens.resize(static_cast<size_t>(h.num_held));
        }
      }
      for (size_t i = 0; i < holders.size(); ++i) {
        Holder& h = holders[i];
        const size_t room = h.lease.block_table.size() * static_cast<size_t>(block_size);
        const auto leased = std::span(h.tokens).first(std::min(room, h.tokens.size()));
        if (const int findable = pool.num_findable(h.lease, leased); findable > h.num_held) {
          pool.adopt(h.lease, leased);
          h.num_held = findable;
          in_step.insert(i);
          ++num_adopted;
        }
        if (h.num_held == std::ssize(h.tokens)) h.tokens.push_back(random.pick(0, 1));
        const int end =
            random.pick(h.num_held, std::min(h.num_held + 4, static_cast<int>(h.tokens.size())));
        if (!pool.grow(h.lease, h.num_held, end)) continue;
        write(i, end);
        pool.publish(h.lease, std::span(h.tokens).first(static_cast<size_t>(end)), published);
      }
      const std::vector<KvCopy> copies = pool.take_copies();
      num_copies += std::ssize(copies);
      for (const auto& [source, destination, count] : copies) {
        std::copy_n(cache.begin() + source, count, cache.begin() + destination);
      }
      for (const auto& [i, p] : writes) {
        cache[holders[i].lease.slot(p, block_size)] = holders[i].tokens[p];
      }
      std::vector<const KvLease*> active;
      for (const Holder& h : holders) {
        active.push_back(&h.lease);
        for (int p = 0; p < h.num_held; ++p) {
          REQUIRE(cache[h.lease.slot(p, block_size)] == h.tokens[p]);
        }
      }
      pool.check_invariants();
      REQUIRE(pool.num_leaked(active) == 0);
      if (!published.empty() && random.one_in(4)) {  // the step has failed
        for (const size_t i : in_step) pool.close(holders[i].lease);
        for (const auto& [block, serial] : published) {
          for (int p = 0; p < block_size; ++p) cache[block * block_size + p] = -1;
        }
        pool.withdraw(published);
        num_withdrawn += std::ssize(published);
        std::erase_if(holders, [](const Holder& h) { return h.lease.owner == kNoOwner; });
      }
      while (!holders.empty() && (random.one_in(3) || holders.size() > 8)) {
        const int i = random.pick(0, static_cast<int>(holders.size()) - 1);
        pool.close(holders[i].lease);
        holders.erase(holders.begin() + i);
      }
    }
    for (Holder& h : holders) pool.close(h.lease);
    CHECK(pool.stats().positions_leased == 0);
    num_evicted += pool.stats().num_evicted;
  }
  for (const long count : {num_found, num_adopted, num_copies, num_withdrawn, num_evicted}) {
    CHECK(count > 50);
  }
}
