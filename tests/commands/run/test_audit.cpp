// A pool that loses blocks: the audit finds them, frees them, and tells.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "commands/bench/bench_job.h"
#include "commands/run/job.h"
#include "core/error.h"
#include "ops/passed_on_steps.h"
#include "tests/support/e2e.h"
#include "tests/support/model_runs.h"
#include "tests/support/tiny_model.h"

namespace pagedinfer {
namespace {

// When the next lease to be closed is to be lost.
struct Fault {
  bool loses_next = false;
  int num_lost = 0;  // leases
};

// Passes everything on, but closes a lease without freeing its blocks where the fault says so.
class ForgetfulPool final : public KvPool {
 public:
  ForgetfulPool(std::unique_ptr<KvPool> inner, Fault& fault)
      : inner_(std::move(inner)), fault_(fault) {}

  int block_size() const override { return inner_->block_size(); }
  std::optional<KvLease> open(std::span<const TokenId> tokens, int reserve,
                              ShareScope scope) override {
    return inner_->open(tokens, reserve, scope);
  }
  int num_findable(const KvLease& lease, std::span<const TokenId> tokens) const override {
    return inner_->num_findable(lease, tokens);
  }
  void adopt(KvLease& lease, std::span<const TokenId> tokens) override {
    inner_->adopt(lease, tokens);
  }
  std::optional<KvLease> fork(const KvLease& lease, int num_tokens) override {
    return inner_->fork(lease, num_tokens);
  }
  bool grow(KvLease& lease, int begin, int end) override { return inner_->grow(lease, begin, end); }
  void publish(KvLease& lease, std::span<const TokenId> tokens,
               std::vector<PublishedBlock>& published) override {
    inner_->publish(lease, tokens, published);
  }
  void withdraw(std::span<const PublishedBlock> published) override { inner_->withdraw(published); }
  std::vector<KvCopy> take_copies() override { return inner_->take_copies(); }
  void close(KvLease& lease) override {
    if (!std::exchange(fault_.loses_next, false)) return inner_->close(lease);
    ++fault_.num_lost;
    lease = KvLease{};
  }
  std::optional<int64_t> free_tokens() const override { return inner_->free_tokens(); }
  KvStats stats() const override { return inner_->stats(); }
  int64_t num_held(std::span<const HeldTokens> tokens) const override {
    return inner_->num_held(tokens);
  }
  int num_leaked(std::span<const KvLease* const> active) const override {
    return inner_->num_leaked(active);
  }
  int reclaim(std::span<const KvLease* const> active) override { return inner_->reclaim(active); }
  void check_invariants() const override { inner_->check_invariants(); }

 private:
  std::unique_ptr<KvPool> inner_;
  Fault& fault_;
};

// Fails both tries of its step number `at`, and then makes the pool lose a lease.
class FailingSteps final : public PassedOnSteps {
 public:
  FailingSteps(StepProtocol& inner, int at, Fault& fault)
      : PassedOnSteps(inner), at_(at), fault_(fault) {}

  BatchView stage(const Batch& batch) override {
    if (num_staged_++ == at_) throw std::runtime_error("no paper");
    if (num_staged_ == at_ + 2) {
      fault_.loses_next = true;
      throw std::runtime_error("no paper");
    }
    return PassedOnSteps::stage(batch);
  }

 private:
  const int at_;
  Fault& fault_;
  int num_staged_ = 0;
};

Config tiny_config(const TinyModel& files) {
  Config config = {.model = files.dir(), .device = Config::Device::kCpu};
  config.threads = 1;
  config.max_model_len = 48;
  config.block_size = 4;
  config.num_blocks = 12;  // one of the longest requests
  config.prefix_cache = false;
  config.max_batch_size = 2;
  config.max_step_tokens = 64;
  return config;
}

// Prompt and completion of every other request take all blocks but a few.
std::vector<Request> large_requests() {
  std::vector<Request> requests;
  for (int i = 0; i < 12; ++i) {
    requests.push_back(make_request(i, i % 2 == 0 ? 38 : 3, i % 2 == 0 ? 10 : 4, 61));
    requests.back().sampling.ignore_eos = true;
  }
  return requests;
}

struct LeakyRun {
  int num_answered = 0, num_failed = 0;
  std::vector<std::pair<int, int>> leaks = {};  // blocks, and how many were answered by then
  int64_t leased_at_end = -1;
  int leaked_at_end = -1;
};

// Runs the requests with a pool that `fault` makes forget.
LeakyRun run_leaky(LoadedModel& model, Fault& fault) {
  const RunPlan& plan = model.plan.runs.front();
  model.pool_in_front = [&](std::unique_ptr<KvPool> pool) {
    return std::make_unique<ForgetfulPool>(std::move(pool), fault);
  };
  Run run(model, plan);
  double now = 0;
  const EngineParts parts = run.parts([&] { return now += 1; });
  Engine engine(parts, plan.limits);
  LeakyRun result;
  run_requests(
      engine, large_requests(),
      [&](const Completion& completion) {
        ++result.num_answered;
        result.num_failed += completion.failed();
      },
      [](const StepStats&) {},
      [&](int num_blocks) { result.leaks.emplace_back(num_blocks, result.num_answered); });
  result.leased_at_end = parts.pool.stats().positions_leased;
  result.leaked_at_end = parts.pool.num_leaked({});
  parts.pool.check_invariants();
  return result;
}

}  // namespace

TEST_CASE("blocks that a failed step leaks are freed at once, and the run goes on") {
  const TinyModel files({.max_positions = 256});
  for (const Config::Kv kv : {Config::Kv::kPaged, Config::Kv::kContiguous}) {
    Config config = tiny_config(files);
    config.kv = kv;
    LoadedModel model = load_model({config}, [] { return 0.0; });
    Fault fault;
    model.steps_in_front = std::make_unique<FailingSteps>(model.plan.ops->steps(), 3, fault);
    const LeakyRun run = run_leaky(model, fault);
    CHECK(fault.num_lost == 1);
    CHECK(run.num_answered == 12);
    CHECK(run.num_failed > 0);
    CHECK(run.num_failed <= 2);
    REQUIRE(run.leaks.size() == 1);
    CHECK(run.leaks[0].first == (kv == Config::Kv::kPaged ? 11 : 1));
    CHECK(run.leaks[0].second < 12);
    CHECK(run.leased_at_end == 0);
    CHECK(run.leaked_at_end == 0);
  }
}

TEST_CASE("blocks that leak without a failure are found at the end") {
  const TinyModel files({.max_positions = 256});
  Config config = tiny_config(files);
  config.num_blocks = 40;
  LoadedModel model = load_model({config}, [] { return 0.0; });
  Fault fault = {.loses_next = true};
  const LeakyRun run = run_leaky(model, fault);
  CHECK(run.num_answered == 12);
  CHECK(run.num_failed == 0);
  REQUIRE(run.leaks.size() == 1);
  CHECK(run.leaks[0].second == 12);
  CHECK(run.leased_at_end == 0);
  CHECK(run.leaked_at_end == 0);
}

TEST_CASE("a run in which nothing leaks tells of no leak, after failures too") {
  const TinyModel files({.max_positions = 256});
  LoadedModel model = load_model({tiny_config(files)}, [] { return 0.0; });
  Fault fault, other;
  model.steps_in_front = std::make_unique<FailingSteps>(model.plan.ops->steps(), 3, other);
  const LeakyRun run = run_leaky(model, fault);
  CHECK(run.num_failed > 0);
  CHECK(fault.num_lost == 0);
  CHECK(run.leaks.empty());
}

TEST_CASE("a run that leaks has all its records, and ends with code 1") {
  const TempDir dir;
  const TinyModel files({.max_positions = 256});
  Config config = tiny_config(files);
  config.num_blocks = 40;
  config.input = dir / "in.jsonl";
  config.quiet = true;
  std::string lines;
  for (int i = 0; i < 6; ++i) {
    lines += fmt::format("{{\"prompt_token_ids\": [{}, 5, 9], \"max_tokens\": 6}}\n", i);
  }
  write_file(config.input, lines);
  const auto run_with = [&](bool leaks) {
    Fault fault = {.loses_next = leaks};
    config.output = dir / (leaks ? "leaks" : "sound");
    return run_job(config, [&](LoadedModel& model) {
      model.pool_in_front = [&](std::unique_ptr<KvPool> pool) {
        return std::make_unique<ForgetfulPool>(std::move(pool), fault);
      };
    });
  };
  CHECK(run_with(true) == 1);
  CHECK(run_with(false) == 0);
  CHECK(json_file(dir / "leaks").size() == 6);
  CHECK(read_file(dir / "leaks") == read_file(dir / "sound"));
  CHECK(!std::filesystem::exists(dir / "leaks.part"));
}

TEST_CASE("a comparison of configurations of which one leaks says so") {
  const TinyModel files({.max_positions = 256});
  BenchConfig bench;
  bench.workload = "random";
  bench.requests = 4;
  bench.config = tiny_config(files);
  bench.config.num_blocks = 60;
  bench.config.quiet = true;
  bench.compare = {{.flags = "one", .config = bench.config},
                   {.flags = "two", .config = bench.config}};
  Fault fault = {.loses_next = true};
  const auto load = [&](const std::vector<Config>& configs, const std::function<double()>& clock) {
    LoadedModel model = load_model(configs, clock);
    model.pool_in_front = [&](std::unique_ptr<KvPool> pool) {
      return std::make_unique<ForgetfulPool>(std::move(pool), fault);
    };
    return model;
  };
  CHECK_THROWS_WITH_AS(run_bench(bench, load),
                       doctest::Contains("--compare: configuration 1 (one): "), Error);
  fault.loses_next = true;
  CHECK_THROWS_WITH_AS(run_bench(bench, load),
                       doctest::Contains("blocks of the cache leaked, expected none"), Error);
}

}  // namespace pagedinfer
