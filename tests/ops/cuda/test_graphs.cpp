// Decode steps that are replayed as graphs on a GPU: they have the bits of steps that are queued
// eagerly.
#include "model/decoder.h"
#include "model/model.h"
#include "model/weights.h"
#include "tests/support/cuda_support.h"
#include "tests/support/ops_support.h"
#include "tests/support/tiny_model.h"

namespace pagedinfer {
namespace {

constexpr int kPositions = 4096, kBlockSize = 5;

// A model on a GPU.
struct Side {
  const OpenedModel& model;
  std::unique_ptr<CudaOps> ops;
  Weights weights;
  std::vector<KvLayer> cache = {};

  Side(const OpenedModel& m, DType compute, bool graphs)
      : model(m),
        ops(make_gpu(m.spec, {.compute = compute, .deterministic = true, .graphs = graphs})),
        weights(load_weights(m, compute, ops->memory())) {
    for (size_t i = 0; i < m.spec.layers.size(); ++i) {
      cache.push_back(
          ops->memory().allocate_kv(compute, m.spec.kv_heads, m.spec.head_dim, kPositions));
    }
  }

  // The logits of the batch's own rows, and the most likely token of each.
  struct Result {
    std::vector<float> logits;
    std::vector<TokenId> tokens = {};
  };
  Result run(const Batch& batch) {
    const BatchView view = ops->steps().stage(batch);
    const Tensor all = ops->steps().run(view, [&] {
      return forward(model.spec, weights, cache, view, ops->steps(), ops->arithmetic());
    });
    const Tensor own = {all.data, all.dtype, batch.num_logits(), all.cols, all.stride};
    // The next piece of scratch does not overlap the logits.
    const Tensor next = ops->steps().scratch(DType::kF32, 1, kMiB / 4);
    const auto* const logits = static_cast<const char*>(all.data);
    const auto* const behind = static_cast<const char*>(next.data);
    CHECK((logits + all.bytes() <= behind || behind + next.bytes() <= logits));
    const SamplingParams greedy = {};
    std::vector<SampleRow> rows;
    for (int i = 0; i < own.rows; ++i) rows.push_back({.params = &greedy, .logits_row = i});
    Result result = {.logits = std::vector<float>(static_cast<size_t>(own.rows * own.cols))};
    ops->read(own, result.logits.data());
    if (!rows.empty()) {
      result.tokens = collect_tokens(ops->steps(), ops->steps().sample(all, rows), rows.size());
    }
    return result;
  }
};

// Sequences in scattered blocks.
struct Sequences {
  struct One {
    std::vector<TokenId> tokens;
    int done = 0;
    std::vector<int32_t> blocks = {};
  };
  std::vector<One> all = {};
  std::vector<int32_t> free = {};

  explicit Sequences(Random& random) {
    for (int32_t i = 0; i < kPositions / kBlockSize; ++i) free.push_back(i * kBlockSize);
    for (size_t i = free.size(); i > 1; --i) {
      std::swap(free[i - 1], free[static_cast<size_t>(random.below(static_cast<int>(i)))]);
    }
  }
  void add(Random& random, int num_tokens, int vocab) {
    One& one = all.emplace_back();
    for (int i = 0; i < num_tokens; ++i) one.tokens.push_back(random.below(vocab));
  }

  // A step of all tokens of the first `count` sequences that are not computed yet.
  Batch next(int count) {
    Batch batch = {.query_starts = {0}, .block_size = kBlockSize};
    for (int s = 0; s < count; ++s) {
      One& one = all[static_cast<size_t>(s)];
      const int end = static_cast<int>(one.tokens.size());
      while (static_cast<int>(one.blocks.size()) * kBlockSize < end) {
        one.blocks.push_back(free.back());
        free.pop_back();
      }
      batch.max_blocks = std::max(batch.max_blocks, static_cast<int>(one.blocks.size()));
      for (int p = one.done; p < end; ++p) {
        batch.tokens.push_back(one.tokens[static_cast<size_t>(p)]);
        batch.positions.push_back(p);
        batch.slot_mapping.push_back(one.blocks[static_cast<size_t>(p / kBlockSize)] +
                                     p % kBlockSize);
      }
      one.done = end;
      batch.query_starts.push_back(batch.num_tokens());
      batch.context_lens.push_back(end);
      batch.logit_tokens.push_back(batch.num_tokens() - 1);
    }
    for (int s = 0; s < count; ++s) {
      std::vector<int32_t> row = all[static_cast<size_t>(s)].blocks;
      row.resize(static_cast<size_t>(batch.max_blocks), -1);
      batch.block_table.insert(batch.block_table.end(), row.begin(), row.end());
    }
    return batch;
  }
};

void compare(const OpenedModel& model, DType compute, int seed) {
  Side plain(model, compute, false), graphs(model, compute, true);
  Random random{static_cast<uint64_t>(seed)};
  Sequences sequences(random);
  int num_decodes = 0, num_differing = 0;
  const auto step = [&](int count) {
    const Batch batch = sequences.next(count);
    num_decodes += batch.num_tokens() == batch.num_seqs();
    const Side::Result expected = plain.run(batch), found = graphs.run(batch);
    num_differing += count_differences(expected.logits, found.logits) != 0;
    num_differing += expected.tokens != found.tokens;
    for (int s = 0; s < count; ++s) {
      sequences.all[static_cast<size_t>(s)].tokens.push_back(found.tokens[static_cast<size_t>(s)]);
    }
  };
  const auto add = [&](int length) {
    sequences.add(random, length, static_cast<int>(model.spec.vocab));
    step(static_cast<int>(sequences.all.size()));  // together with the next tokens of the others
  };
  add(251);  // soon two segments
  add(17);
  for (int i = 0; i < 40; ++i) step(2);  // more segments at one time, more blocks at another
  for (int i = 0; i < 5; ++i) step(1);
  for (int i = 0; i < 3; ++i) add(random.between(1, 40));
  for (const int count : {5, 3, 4, 5, 1, 5, 2, 4, 3, 5, 5, 5}) step(count);
  CHECK(num_differing == 0);

  const GraphCounts none = plain.ops->graph_counts(), counts = graphs.ops->graph_counts();
  CHECK(none.eager + none.captured + none.replayed + none.failed == 0);
  // The counts leave out steps with prompts.
  CHECK(counts.eager + counts.captured + counts.replayed == num_decodes);
  CHECK(counts.failed == 0);
  CHECK(counts.captured >= 4);
  CHECK(counts.replayed >= 8);
  CHECK(counts.eager < num_decodes / 2);
}

TinyModelOptions shape_of_model(int head_dim) {
  return {.seed = 21, .head_dim = head_dim, .max_positions = 1024, .dtype = DType::kBF16};
}

}  // namespace

TEST_CASE("on a GPU: a replayed step has the bits of one that is queued eagerly") {
  if (skips_without_gpu()) return;
  for (const int head_dim : {64, 20}) {  // with and without tensor cores
    const TinyModel files(shape_of_model(head_dim));
    const OpenedModel model = open_model(files.dir());
    CAPTURE(head_dim);
    compare(model, DType::kBF16, 1);
  }
}

TEST_CASE("on a GPU: a step that cannot be captured is queued eagerly") {
  if (skips_without_gpu()) return;
  const TinyModel files(shape_of_model(64));
  const OpenedModel model = open_model(files.dir());
  Side side(model, DType::kBF16, true);
  Random random{5};
  Sequences sequences(random);
  sequences.add(random, 9, static_cast<int>(model.spec.vocab));
  side.run(sequences.next(1));
  std::vector<float> read, first;
  for (int i = 0; i < 4; ++i) {
    sequences.all[0].tokens.push_back(3);
    const Batch batch = sequences.next(1);
    const BatchView view = side.ops->steps().stage(batch);
    int times = 0;
    const Tensor out = side.ops->steps().run(view, [&] {
      ++times;
      const Tensor logits = forward(model.spec, side.weights, side.cache, view, side.ops->steps(),
                                    side.ops->arithmetic());
      read.assign(static_cast<size_t>(logits.rows * logits.cols), 0);
      side.ops->read(logits, read.data());  // waits, which a capture does not allow
      return logits;
    });
    CHECK(times == (i == 1 ? 2 : 1));
    std::vector<float> again(read.size());
    side.ops->read(out, again.data());
    CHECK(count_differences(read, again) == 0);
  }
  const GraphCounts counts = side.ops->graph_counts();
  CHECK(counts.failed == 1);
  CHECK(counts.eager == 4);
  CHECK(counts.captured == 0);
}

}  // namespace pagedinfer
