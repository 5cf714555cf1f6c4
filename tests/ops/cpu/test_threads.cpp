#include <doctest/doctest.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <atomic>
#include <ctime>
#include <fstream>
#include <numeric>
#include <vector>

#include "core/batch.h"
#include "core/cpu_list.h"
#include "ops/cpu/arena.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/thread_pool.h"
#include "tests/support/sanitized.h"

using namespace pagedinfer;

TEST_CASE("a pool runs every task once, on distinct workers at a time") {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    std::vector<std::atomic<bool>> busy(threads);
    for (int round = 0; round < 2000; ++round) {
      const int count = round % 37;
      std::vector<std::atomic<int>> runs(count);
      std::atomic<int> overlaps = 0;
      pool.parallel_for(count, [&](int task, int worker) {
        overlaps += busy[worker].exchange(true);
        ++runs[task];
        busy[worker] = false;
      });
      CHECK(overlaps == 0);
      for (const auto& n : runs) CHECK(n == 1);
    }
  }
}

TEST_CASE("the caller sees what tasks wrote, also after the pool slept") {
  ThreadPool pool(3);
  std::vector<int64_t> values(1000);
  for (int round = 0; round < 20; ++round) {
    pool.parallel_for(1000, [&](int task, int) { values[task] += task; });
    if (round % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (int i = 0; i < 1000; ++i) CHECK(values[i] == 20 * i);
}

TEST_CASE("tasks compute without denormals and leave the caller's mode alone") {
  const unsigned before = _mm_getcsr();
  ThreadPool pool(3);
  std::vector<float> results(3, -1.0f);
  std::atomic<int> started = 0;
  pool.parallel_for(3, [&](int, int worker) {
    ++started;  // and wait for the others, so that each thread gets a task
    while (started < 3) std::this_thread::yield();
    volatile float tiny = 1e-39f;
    results[worker] = tiny * 2.0f;
  });
  for (const float x : results) CHECK(x == 0.0f);
  CHECK((_mm_getcsr() & 0x8040) == (before & 0x8040));
}

TEST_CASE("each worker of a pinned pool stays on its processor, and the caller is free between") {
  const CpuList all = allowed_cpus();
  const int threads = static_cast<int>(all.cpus.size());
  ThreadPool pool(threads, all);
  std::atomic<int> started = 0;
  pool.parallel_for(threads, [&](int, int worker) {
    ++started;  // and wait for the others, so that each thread gets a task
    while (started < threads) std::this_thread::yield();
    CHECK(allowed_cpus() == CpuList{{all.cpus[worker]}});
  });
  CHECK(allowed_cpus() == all);
}

TEST_CASE("threads that have no processor for themselves sleep at once") {
  if (is_skipped_when_sanitized("sanitizers take time of their own")) return;
  const PinnedTo one(allowed_cpus().cpus.front());
  constexpr int kThreads = 64, kRounds = 20;
  ThreadPool pool(kThreads);
  const std::clock_t begin = std::clock();
  for (int round = 0; round < kRounds; ++round) {
    pool.parallel_for(2, [](int, int) {});
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the others wake up
  }
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  constexpr double kSpinTime = 50e-6;
  CHECK(seconds < 0.75 * kRounds * kThreads * kSpinTime);
}

namespace {

// Of this process, without files.
int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  int64_t all = 0, resident = 0, of_files = 0;
  in >> all >> resident >> of_files;
  return (resident - of_files) * sysconf(_SC_PAGESIZE);
}

Tensor ones(Ops& ops, int64_t rows, int64_t cols) {
  const Tensor tensor = ops.memory().allocate(DType::kF32, rows, cols);
  std::fill_n(tensor.row<float>(0), rows * cols, 1.0f);
  return tensor;
}

}  // namespace

TEST_CASE("threads that compute take no more memory than planned") {
  if (is_skipped_when_sanitized("sanitizers take memory of their own")) return;
  constexpr int kThreads = 16, kVocab = 100'000, kTokens = 2048, kRows = 64;
  constexpr int kHeads = 8, kKvHeads = 2, kDim = 256;
  const int64_t before = resident_bytes();
  const std::unique_ptr<Ops> ops =
      make_cpu_ops({.isa = available_isas().back(),
                    .num_threads = kThreads,
                    .compute = DType::kF32,
                    .attention = {.heads = kHeads, .kv_heads = kKvHeads, .head_dim = kDim}});
  Batch batch = {.query_starts = {0, kTokens},
                 .context_lens = {kTokens},
                 .block_table = {0},
                 .logit_tokens = {kTokens - 1},
                 .max_blocks = 1,
                 .block_size = kTokens};
  batch.tokens.resize(kTokens);
  for (int i = 0; i < kTokens; ++i) batch.positions.push_back(i);
  batch.slot_mapping = batch.positions;
  const BatchView view = ops->steps().stage(batch);
  const KvLayer cache = ops->memory().allocate_kv(DType::kF32, kKvHeads, kDim, kTokens);
  const Tensor q = ones(*ops, kTokens, kHeads * kDim), out = ones(*ops, kTokens, kHeads * kDim);
  const Tensor k = ones(*ops, kTokens, kKvHeads * kDim);
  ops->arithmetic().write_kv(k, k, view.slot_mapping, cache);
  ops->arithmetic().attention(
      q, cache, view, {.heads = kHeads, .kv_heads = kKvHeads, .head_dim = kDim, .scale = 1}, out);
  const SamplingParams params = {.temperature = 1, .top_p = 0.9f, .frequency_penalty = 1};
  const std::vector<TokenId> generated = {1, 2, 3};
  std::vector<SampleRow> rows;
  for (int i = 0; i < kRows; ++i) {
    rows.push_back({.params = &params, .generated = generated, .logits_row = i});
  }
  std::vector<DrawnToken> drawn(kRows);
  ops->steps().collect(ops->steps().sample(ones(*ops, kRows, kVocab), rows), drawn);

  const StepBounds bounds = {
      .tokens = kTokens, .sequences = kRows, .vocab = kVocab, .context = kTokens};
  const int64_t taken = resident_bytes() - before - ops->memory().held_bytes();
  CAPTURE(taken);
  CHECK(taken <= ops->memory().thread_bytes(bounds));
  CHECK(taken > ops->memory().thread_bytes(bounds) / 8);
}

TEST_CASE("an arena gives disjoint aligned pieces and ends with one chunk") {
  Arena arena;
  for (int step = 0; step < 3; ++step) {
    arena.reset();
    std::vector<std::pair<char*, int64_t>> pieces;
    for (const int64_t bytes : {1, 64, 65, 3 << 20, 0, 1000, 2 << 20}) {
      pieces.emplace_back(static_cast<char*>(arena.take(bytes)), bytes);
    }
    for (size_t i = 0; i < pieces.size(); ++i) {
      CHECK(reinterpret_cast<uintptr_t>(pieces[i].first) % 64 == 0);
      for (size_t j = 0; j < i; ++j) {
        CHECK((pieces[i].first >= pieces[j].first + pieces[j].second ||
               pieces[j].first >= pieces[i].first + pieces[i].second));
      }
    }
    CHECK(arena.max_used() == 64 + 64 + 128 + (3 << 20) + 0 + 1024 + (2 << 20));
  }
}
