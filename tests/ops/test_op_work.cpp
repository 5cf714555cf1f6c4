// The minimum work of operations, against sums made by hand and a published count.
#include <doctest/doctest.h>

#include <algorithm>

#include "ops/op_work.h"
#include "tests/support/workload.h"

namespace pagedinfer {
namespace {

Tensor shape(DType dtype, int64_t rows, int64_t cols) {
  static char somewhere;
  return {&somewhere, dtype, rows, cols, cols};
}
Tensor bf16s(int64_t rows, int64_t cols) { return shape(DType::kBF16, rows, cols); }
Tensor floats(int64_t rows, int64_t cols) { return shape(DType::kF32, rows, cols); }
Tensor ints(int64_t rows) { return shape(DType::kI32, rows, 1); }

struct Run {
  int context, count;  // length of the context, and number of its last tokens that are computed
};

Batch batch_of(const std::vector<Run>& runs) {
  Batch batch = {.query_starts = {0}};
  for (const Run& run : runs) {
    batch.query_starts.push_back(batch.query_starts.back() + run.count);
    batch.context_lens.push_back(run.context);
  }
  return batch;
}

}  // namespace

TEST_CASE("work: what an operation moves is counted once") {
  CHECK(work_of({bf16s(3, 5), floats(1, 7), ints(2)}).bytes == 30 + 28 + 8);
  CHECK(work_of({bf16s(3, 5)}).flops == 0);
  // Reads three rows of the table, not all thousand.
  CHECK(embed_work(bf16s(1000, 8), ints(3), floats(3, 8)).bytes == 48 + 12 + 96);
  // k and v read, the slots, and both written in the cache's type.
  const KvLayer cache = {.k = bf16s(100, 8), .v = bf16s(100, 8), .kv_heads = 1, .head_dim = 8};
  CHECK(write_kv_work(floats(3, 8), floats(3, 8), ints(3), cache).bytes == 96 + 96 + 12 + 96);
  // q read and written, and the table; norms where there are some.
  const OpWork plain = rotate_and_write_kv_work(floats(3, 16), floats(3, 8), floats(3, 8), {},
                                                {floats(3, 4), floats(3, 4)}, ints(3), cache);
  CHECK(plain.bytes == 300 + 2 * 192 + 48);
  const OpWork normed =
      rotate_and_write_kv_work(floats(3, 16), floats(3, 8), floats(3, 8), {.q = floats(1, 8)},
                               {floats(3, 4), floats(3, 4)}, ints(3), cache);
  CHECK(normed.bytes == plain.bytes + 32);
}

TEST_CASE("work: products share their input") {
  const Product products[] = {{bf16s(6, 5), floats(3, 6)}, {bf16s(2, 5), floats(3, 2)}};
  const OpWork work = matmul_work(floats(3, 5), products);
  CHECK(work.bytes == 4 * 3 * 5 + 2 * 8 * 5 + 4 * 3 * 8);
  CHECK(work.flops == 2 * 3 * 5 * 8);
}

TEST_CASE("work: codes count with their scales, and their products are of int8") {
  Tensor weight = shape(DType::kI4, 96, 32);
  weight.stride = 64 * 18;  // 32 codes of 4 bits and a scale of 16
  const Product products[] = {{weight, floats(3, 96)}};
  const OpWork work = matmul_work(floats(3, 32), products);
  CHECK(work.bytes == 4 * 3 * 32 + 96 * 18 + 4 * 3 * 96);
  CHECK(work.int8_flops == work.flops);
  CHECK(embed_work(weight, ints(3), floats(3, 32)).bytes == 3 * 18 + 12 + 384);
}

TEST_CASE("work: a fused gate writes its result in place of both products") {
  const GatedProducts products = {.gate = {bf16s(6, 5), floats(3, 6)},
                                  .up = {bf16s(6, 5), floats(3, 6)},
                                  .up_bias = floats(1, 6)};
  const OpWork work = gated_matmul_work(floats(3, 5), products, floats(3, 6));
  CHECK(work.bytes == 4 * 3 * 5 + 2 * 12 * 5 + 4 * 3 * 6 + 4 * 6);
  CHECK(work.flops == 2 * 3 * 5 * 12);
}

TEST_CASE("work: attention reads each key once and pairs it with every query that sees it") {
  // Positions 4 and 5 of a first sequence, 0 of a second.
  const AttendedKeys all = attended_keys(batch_of({{6, 2}, {1, 1}}), 0);
  CHECK(all.read == 6 + 1);
  CHECK(all.seen == 5 + 6 + 1);
  const AttendedKeys windowed = attended_keys(batch_of({{6, 2}, {1, 1}}), 3);
  CHECK(windowed.read == 4 + 1);
  CHECK(windowed.seen == 3 + 3 + 1);

  const KvLayer cache = {.k = bf16s(100, 16), .v = bf16s(100, 16), .kv_heads = 2, .head_dim = 5};
  const OpWork work = attention_work(floats(3, 20), cache, all,
                                     {.heads = 4, .kv_heads = 2, .head_dim = 5}, floats(3, 20));
  CHECK(work.bytes == 2 * 240 + 2 * 7 * 2 * 5 * 2);  // without the padding of heads
  CHECK(work.flops == 4 * 12 * 4 * 5);

  // Integers of a byte, and a scale for each head of a key and of a value.
  const KvLayer narrow = {.k = shape(DType::kI8, 100, 16),
                          .v = shape(DType::kI8, 100, 16),
                          .kv_heads = 2,
                          .head_dim = 5,
                          .k_scale = floats(100, 1),
                          .v_scale = floats(100, 1)};
  CHECK(attention_work(floats(3, 20), narrow, all, {.heads = 4, .kv_heads = 2, .head_dim = 5},
                       floats(3, 20))
            .bytes == 2 * 240 + 2 * 7 * 2 * (5 + 4));
  CHECK(write_kv_work(floats(3, 10), floats(3, 10), ints(3), narrow).bytes ==
        2 * 120 + 12 + 2 * 3 * 2 * (5 + 4));
  const std::vector<KvCopy> copies = {{0, 50, 7}};
  CHECK(copy_kv_work(copies, {&narrow, 1}).bytes == 2 * 7 * 2 * 2 * (5 + 4));
}

TEST_CASE("work: keys are those of every query, one after the other") {
  WorkloadRandom random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Run> runs;
    const int window = random.one_in(3) ? 0 : random.pick(1, 40);
    AttendedKeys expected;
    for (int s = random.pick(1, 4); s > 0; --s) {
      const int context = random.pick(1, 60), count = random.pick(1, context);
      runs.push_back({context, count});
      std::vector<bool> is_read(static_cast<size_t>(context));
      for (int query = context - count; query < context; ++query) {
        for (int key = 0; key <= query; ++key) {
          if (window > 0 && key <= query - window) continue;
          is_read[static_cast<size_t>(key)] = true;
          ++expected.seen;
        }
      }
      expected.read += std::count(is_read.begin(), is_read.end(), true);
    }
    const AttendedKeys found = attended_keys(batch_of(runs), window);
    REQUIRE(found.read == expected.read);
    REQUIRE(found.seen == expected.seen);
  }
}

TEST_CASE("the work of experts counts those that have rows") {
  constexpr int64_t kRows = 3, kColumns = 10, kWidth = 7;
  const auto shape = [](DType type, int64_t rows, int64_t cols) {
    return Tensor{nullptr, type, rows, cols, cols};
  };
  const Expert expert = {.gate = shape(DType::kI8, kWidth, kColumns),
                         .up = shape(DType::kI8, kWidth, kColumns),
                         .down = shape(DType::kBF16, kColumns, kWidth)};
  const std::vector<Expert> experts(4, expert);
  const std::vector<int32_t> starts = {0, 4, 4, 6, 6};  // two have rows
  const Tensor x = shape(DType::kF32, kRows, kColumns);
  const ExpertChoice choice = {shape(DType::kI32, kRows, 2), shape(DType::kF32, kRows, 2)};
  const ExpertGroups groups = {shape(DType::kI32, 1, 6), shape(DType::kI32, 1, 5)};
  const OpWork work = experts_work(x, choice, groups, starts, experts, x);
  const double size = kWidth * kColumns;
  CHECK(work.bytes == 2 * (2 * size + 2 * size) + 2 * 4 * kRows * kColumns + 4 * (6 + 6 + 6 + 5));
  CHECK(work.flops == 2 * 3 * size * 6);
  CHECK(work.int8_flops == 2 * 2 * size * 6);
  // Without their starts: each row has two, one of which may be the shared one, the last.
  std::vector<Expert> unequal = experts;
  unequal.back().up = shape(DType::kI8, kWidth, 2 * kColumns);
  const OpWork least = experts_work(x, choice, groups, {}, unequal, x);
  CHECK(least.bytes == work.bytes + size);
  CHECK(least.flops == 2 * 3 * size * 6 + 2 * size * kRows);
}

TEST_CASE("work: the bound is the slower of memory and arithmetic") {
  const DevicePeaks peaks = {.bytes_per_second = 100, .flops_per_second = 1000};
  CHECK(bound_of({.bytes = 50, .flops = 400}, peaks) == 0.5);
  CHECK(bound_of({.bytes = 30, .flops = 400}, peaks) == 0.4);
  const DevicePeaks both = {
      .bytes_per_second = 100, .flops_per_second = 1000, .int8_flops_per_second = 4000};
  CHECK(bound_of({.bytes = 10, .flops = 1600, .int8_flops = 1600}, both) == 0.4);
  CHECK(bound_of({.bytes = 10, .flops = 1900, .int8_flops = 1600}, both) == 0.7);
  CHECK(bound_of({.bytes = 50, .flops = 1600, .int8_flops = 1600}, both) == 0.5);
}

}  // namespace pagedinfer
