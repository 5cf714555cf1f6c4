// Several samples of one prompt, guessed tokens, and what the scheduler asks of a pool that shares.
#include <doctest/doctest.h>

#include "kv/contiguous_pool.h"
#include "kv/paged_pool.h"
#include "tests/support/aborts.h"
#include "tests/support/sched_steps.h"

using namespace pagedinfer;

namespace {

using Ages = std::set<int64_t>;
using Ints = std::vector<int32_t>;

// A paged pool that says how it is used, and pretends to have found tokens in the cache.
class WatchedPool final : public KvPool {
 public:
  WatchedPool(int num_blocks, int block_size) : pool_(num_blocks, block_size) {}

  int num_cached = 0;  // of every lease that opens
  bool shares_first_block = false;
  std::vector<std::vector<TokenId>> published = {};

  int block_size() const override { return pool_.block_size(); }
  std::optional<KvLease> open(std::span<const TokenId> tokens, int reserve) override {
    std::optional<KvLease> lease = pool_.open(tokens, reserve);
    if (!lease) return lease;
    lease->num_cached = num_cached;
    own_first_[lease->owner] = lease->block_table[0];
    if (shares_first_block) lease->block_table[0] = own_first_.begin()->second;
    return lease;
  }
  std::optional<KvLease> fork(const KvLease& lease, int num_tokens) override {
    return pool_.fork(lease, num_tokens);
  }
  bool grow(KvLease& lease, int begin, int end) override { return pool_.grow(lease, begin, end); }
  void publish(KvLease&, std::span<const TokenId> tokens) override {
    published.emplace_back(tokens.begin(), tokens.end());
  }
  std::vector<KvCopy> take_copies() override { return pool_.take_copies(); }
  void close(KvLease& lease) override {
    if (shares_first_block) lease.block_table[0] = own_first_.at(lease.owner);
    pool_.close(lease);
  }
  std::optional<int64_t> free_tokens() const override { return pool_.free_tokens(); }
  KvStats stats() const override {
    KvStats stats = pool_.stats();
    stats.num_shared_blocks = shares_first_block;
    return stats;
  }
  int num_leaked(std::span<const KvLease* const> active) const override {
    return shares_first_block ? 0 : pool_.num_leaked(active);
  }
  int reclaim(std::span<const KvLease* const> active) override { return pool_.reclaim(active); }
  void check_invariants() const override { pool_.check_invariants(); }

 private:
  PagedPool pool_;
  std::map<OwnerId, int32_t> own_first_;  // block
};

}  // namespace

TEST_CASE("a prompt of several samples is computed once and forked") {
  Steps s(std::make_unique<PagedPool>(20, 4), {.max_model_len = 32});
  s.submit(6, 3, 3);
  const StepPlan first = s.plan();
  REQUIRE(first.chunks.size() == 1);
  CHECK(first.num_tokens == 6);
  CHECK(first.num_logits == 1);
  CHECK(first.draws.size() == 3);
  s.advance(first);
  CHECK(ages_of(s.scheduler.running()) == Ages{0, 1, 2});
  CHECK(s.scheduler.running().at(2).sample == 2);

  const StepPlan second = s.plan();
  CHECK(second.num_decodes == 3);
  CHECK(second.copies.size() == 2 * 2);  // two forks of two blocks
  CHECK(s.batch.tokens == Ints{-1, -2, -3});
  CHECK(s.commit_tokens(first, {7, 8, 9}, {1}).finished.size() == 1);
  CHECK(s.scheduler.running().at(0).generated()[0] == 7);
  CHECK(s.scheduler.running().at(2).generated()[0] == 9);
  s.advance(second);
  CHECK(s.commit_tokens(second, {1, 1, 1}).num_surplus == 1);
  CHECK(s.plan().copies.empty());
}

TEST_CASE("a group is admitted when all its samples may run, and nothing overtakes it") {
  Steps s(std::make_unique<PagedPool>(40, 4), {.max_running = 4, .max_model_len = 32});
  s.submit(5, 3);
  const int64_t group = s.submit(5, 3, 4);
  s.submit(5, 3);
  for (int i = 0; i < 3; ++i) {
    s.step();
    CHECK(s.scheduler.waiting().contains(group));
    CHECK(s.scheduler.num_waiting() == 2);
  }
  CHECK(s.step().num_admitted == 1);
  CHECK(s.scheduler.num_running() == 4);
  while (!s.scheduler.idle()) s.step();
}

TEST_CASE("a group of more samples than may run begins alone, and the others follow") {
  Steps s(std::make_unique<PagedPool>(40, 4), {.max_running = 2, .max_model_len = 32});
  s.submit(5, 3, 5);
  s.step();
  CHECK(ages_of(s.scheduler.running()) == Ages{0, 1});
  CHECK(ages_of(s.scheduler.waiting()) == Ages{2, 3, 4});
  while (!s.scheduler.idle()) s.step();
}

TEST_CASE("a sample that finds no room waits and computes the prompt again") {
  Steps s(std::make_unique<PagedPool>(3, 4), {.max_model_len = 12, .admission_reserve = 0.0});
  s.submit(6, 3, 2);
  s.step();
  CHECK(ages_of(s.scheduler.running()) == Ages{0});
  REQUIRE(ages_of(s.scheduler.waiting()) == Ages{1});
  CHECK(s.scheduler.waiting().at(1).num_known() == 7);
  while (!s.scheduler.running().contains(1)) s.step();
  CHECK(s.scheduler.running().at(1).num_recomputed == 6);
  while (!s.scheduler.idle()) s.step();
}

TEST_CASE("samples that end with their first token hold no memory") {
  Steps s(std::make_unique<PagedPool>(20, 4), {.max_model_len = 32});
  s.submit(6, 1, 3);
  const StepPlan plan = s.plan();
  s.advance(plan);
  CHECK(s.pool->stats().positions_leased == 0);
  CHECK(s.plan().chunks.empty());
  CHECK(s.commit(plan).size() == 3);
  CHECK(s.scheduler.idle());
}

TEST_CASE("aborting a step in flight takes the samples that it forked") {
  Steps s(std::make_unique<PagedPool>(20, 4), {.max_model_len = 32});
  s.submit(6, 3, 3);
  const StepPlan plan = s.plan();
  s.advance(plan);
  CHECK(s.scheduler.abort(plan).size() == 3);
  CHECK(s.scheduler.idle());
  CHECK(s.pool->stats().positions_leased == 0);
}

TEST_CASE("as many guessed tokens are verified as fit the step and the pool") {
  const auto drafted = [](int num_blocks) {
    auto s = std::make_unique<Steps>(std::make_unique<PagedPool>(num_blocks, 4),
                                     SchedulerLimits{.max_step_tokens = 10,
                                                     .max_running = 4,
                                                     .max_model_len = 16,
                                                     .admission_reserve = 0.0});
    for (int i = 0; i < 2; ++i) s->submit(3, 12);
    s->step();
    for (int64_t age = 0; age < 2; ++age) s->scheduler.draft(age, std::vector(5, TokenId{1}));
    return s;
  };
  SUBCASE("of the step") {
    const auto s = drafted(5);
    const StepPlan plan = s->plan();
    CHECK(plan.chunks[0].count == 1 + 5);
    CHECK(plan.chunks[1].count == 1 + 1);  // six are left beside a token for each that may run
    CHECK(plan.draws.size() == 8);
    s->advance(plan);
    CHECK(aborts([&] { static_cast<void>(s->scheduler.plan()); }));  // not committed
    s->commit_tokens(plan, {1, 1, 2, 1, 1, 1, 2, 1});  // the first two hold, and none of the second
    CHECK(s->scheduler.running().at(0).num_generated() == 1 + 3);
    CHECK(s->scheduler.running().at(0).tokens.back() == 2);
    CHECK(s->scheduler.running().at(1).num_generated() == 1 + 1);
  }
  SUBCASE("of the pool, where nothing is preempted for them") {
    const auto s = drafted(4);
    const StepPlan plan = s->plan();
    CHECK(plan.num_preempted == 0);
    CHECK(plan.chunks[0].count == 1 + 5);  // the last two blocks
    CHECK(plan.chunks[1].count == 1);
    s->finish(plan);
  }
}

TEST_CASE("tokens found in the cache are not computed") {
  auto watched = std::make_unique<WatchedPool>(20, 4);
  watched->num_cached = 4;
  Steps s(std::move(watched), {.max_model_len = 32});
  s.submit(6, 3);
  const StepPlan plan = s.plan();
  REQUIRE(plan.chunks.size() == 1);
  CHECK(plan.chunks[0].start == 4);
  CHECK(plan.chunks[0].count == 2);
  s.finish(plan);
  CHECK(s.scheduler.running().at(0).num_recomputed == 0);
}

TEST_CASE("tokens are published when they are known and in the cache") {
  auto watched = std::make_unique<WatchedPool>(20, 4);
  const auto& published = watched->published;
  Steps s(std::move(watched), {.prefill_chunk_size = 4, .max_model_len = 32});
  s.submit(6, 3);
  const std::vector<TokenId> prompt = s.requests[0].prompt;
  s.step();
  const StepPlan second = s.plan();
  s.advance(second);
  const StepPlan third = s.plan();
  s.commit_tokens(second, {7});
  s.advance(third);
  s.commit_tokens(third, {8});
  REQUIRE(published.size() == 3);
  CHECK(published[0] == std::vector(prompt.begin(), prompt.begin() + 4));
  CHECK(published[1] == prompt);
  std::vector<TokenId> known = prompt;
  known.push_back(7);
  CHECK(published[2] == known);
}

TEST_CASE("shared positions count once") {
  auto watched = std::make_unique<WatchedPool>(20, 4);
  watched->num_cached = 4;
  watched->shares_first_block = true;
  Steps s(std::move(watched), {.max_model_len = 32});
  s.submit(6, 3);
  s.submit(9, 3);
  s.step();
  CHECK(s.scheduler.cache_use().tokens_held == 4 + 2 + 5);
}
