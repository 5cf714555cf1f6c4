// The CPU's Ops: every method gives the same bits on each instruction set and number of threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/float16.h"
#include "ops/cpu/packed_format.h"
#include "ops/low_rank.h"
#include "ops/row_source.h"
#include "tests/support/ops_support.h"

using namespace pagedinfer;

namespace {

std::vector<CpuOptions> every_way(DType compute) {
  std::vector<CpuOptions> ways;
  for (const CpuIsa isa : available_isas()) {
    for (const int threads : {1, 3}) ways.push_back({isa, threads, compute});
  }
  return ways;
}

// A matrix of random numbers in any type that a checkpoint may have.
struct Matrix {
  Matrix(Random& random, DType dtype, int64_t rows, int64_t cols)
      : bytes(rows * cols * size_of(dtype)), tensor{bytes.data(), dtype, rows, cols, cols} {
    for (int64_t i = 0; i < rows * cols; ++i) {
      if (dtype == DType::kF32) {
        tensor.row<float>(0)[i] = random.normal();
      } else if (dtype == DType::kBF16) {
        tensor.row<uint16_t>(0)[i] = static_cast<uint16_t>(bits_of(random.normal()) >> 16);
      } else {  // float16 within +-4, some subnormal
        tensor.row<uint16_t>(0)[i] = static_cast<uint16_t>(random.bits() & 0x83ff) |
                                     static_cast<uint16_t>(random.below(17) << 10);
      }
    }
  }
  float at(int64_t i, int64_t c) const {
    if (tensor.dtype == DType::kF32) return tensor.row<float>(i)[c];
    float y;
    if (tensor.dtype == DType::kBF16) {
      kPortableKernels.from_bf16(tensor.row<bf16>(i) + c, &y, 1);
    } else {
      kPortableKernels.from_f16(tensor.row<f16>(i) + c, &y, 1);
    }
    return y;
  }

  std::vector<char> bytes;
  Tensor tensor;
};

constexpr DType kFileTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

// Runs every operation but attention, on shapes with tails; returns all results in one vector.
std::vector<float> run_everything(const CpuOptions& options, uint64_t seed) {
  Random random{seed};
  const auto ops = make_cpu_ops(options);
  const int tokens = random.between(1, 70), head = 2 * random.between(1, 20);
  const int hidden = head * random.between(1, 12), wide = random.between(1, 400), vocab = 50;
  Batch batch;
  for (int i = 0; i < tokens; ++i) {
    batch.tokens.push_back(random.below(vocab));
    batch.positions.push_back(random.below(4096));
    if (random.below(3) == 0) batch.logit_tokens.push_back(i);
  }
  const BatchView staged = ops->steps().stage(batch);
  std::vector<float> results;
  const auto record = [&](const Tensor& t) {
    for (int64_t i = 0; i < t.rows; ++i) {
      results.insert(results.end(), t.row<float>(i), t.row<float>(i) + t.cols);
    }
  };
  const auto scratch = [&](int64_t rows, int64_t cols) {
    return ops->steps().scratch(DType::kF32, rows, cols);
  };

  const DType file_type = kFileTypes[random.below(options.compute == DType::kF32 ? 3 : 2)];
  const Matrix table(random, file_type, vocab, hidden), scale(random, file_type, 1, hidden);
  const Matrix head_scale(random, file_type, 1, head);
  const Matrix up_weight(random, options.compute, wide, hidden);
  const Matrix gate_weight(random, options.compute, wide, hidden);
  const Tensor x = scratch(tokens, hidden), y = scratch(tokens, hidden);
  ops->arithmetic().embed(table.tensor, staged.tokens, 1.5f, x);
  ops->arithmetic().rms_norm(x, ops->memory().upload(scale.tensor, DType::kF32), 1.0f, 1e-5f, y);
  record(y);
  ops->arithmetic().rms_norm(y, ops->memory().upload(head_scale.tensor, DType::kF32), 0.0f, 1e-5f,
                             y);
  ops->arithmetic().add(y, x);
  record(y);
  const Matrix factors(random, DType::kF32, 1, 4);
  for (const int rotated : {head, head / 4 * 2}) {
    Matrix frequencies(random, DType::kF32, 1, rotated / 2);
    const Tensor angles = scratch(tokens, rotated);
    RopeScale by_position = {1.19f, factors.tensor, 3};
    ops->arithmetic().rope_table(staged.positions, frequencies.tensor,
                                 rotated == head ? RopeScale{} : by_position, angles);
    ops->arithmetic().rope(y, angles, head);
    record(y);
  }
  ops->arithmetic().scale(y, 0.7f);
  record(y);
  ops->arithmetic().softcap(y, 0.9f);
  record(y);
  const Tensor up = scratch(tokens, wide), gate = scratch(tokens, wide);
  const Product products[] = {{up_weight.tensor, up}, {gate_weight.tensor, gate}};
  ops->arithmetic().matmul(y, products);
  record(up);
  for (const Activation f : {Activation::kSilu, Activation::kGeluTanh}) {
    const Tensor out = scratch(tokens, wide);
    ops->arithmetic().gate(gate, up, f, out);
    record(out);
  }
  const Tensor some = scratch(std::ssize(batch.logit_tokens), hidden);
  ops->arithmetic().gather_rows(y, staged.logit_tokens, some);
  record(some);
  return results;
}

}  // namespace

TEST_CASE("every operation has the same bits on each instruction set and number of threads") {
  MESSAGE("instruction sets: " << isa_names());
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    for (uint64_t seed = 0; seed < 25; ++seed) {
      const auto right = run_everything({CpuIsa::kPortable, 1, compute}, seed);
      for (const CpuOptions& options : every_way(compute)) {
        INFO(name_of(options.isa) << ", " << options.num_threads << " threads, seed " << seed);
        CHECK(count_differences(run_everything(options, seed), right) == 0);
      }
    }
  }
}

TEST_CASE("an upload is a view of the same type or a copy rounded to nearest even") {
  Random random{7};
  for (const CpuOptions& options : every_way(DType::kF32)) {
    const auto ops = make_cpu_ops(options);
    for (const DType from : kFileTypes) {
      const Matrix m(random, from, 5, random.between(1, 3000));
      CHECK(ops->memory().upload(m.tensor, from).data == m.tensor.data);
      const Tensor wide = ops->memory().upload(m.tensor, DType::kF32);
      const Tensor narrow = ops->memory().upload(m.tensor, DType::kBF16);
      for (int64_t i = 0; i < 5; ++i) {
        for (int64_t c = 0; c < m.tensor.cols; ++c) {
          const float right = m.at(i, c);
          REQUIRE(same(wide.row<float>(i)[c], right));
          bf16 rounded;
          kPortableKernels.to_bf16(&right, &rounded, 1);
          REQUIRE(narrow.row<bf16>(i)[c].bits == rounded.bits);
        }
      }
    }
  }
}

TEST_CASE("a matrix whose rows are computed becomes what an upload of its numbers becomes") {
  Random random{9};
  for (CpuOptions options : every_way(DType::kBF16)) {
    options.packs_weights = random.below(2) == 0 && can_pack(DType::kBF16);
    const auto ops = make_cpu_ops(options);
    const Matrix m(random, DType::kF32, random.between(1, 70), random.between(1, 600));
    const int64_t rows = m.tensor.rows, cols = m.tensor.cols;
    std::vector<std::atomic<int>> times_read(static_cast<size_t>(rows));
    const RowSource source = {rows, cols, [&](int64_t first, int64_t count, float* out) {
                                std::copy_n(m.tensor.row<float>(first), count * cols, out);
                                for (int64_t i = first; i < first + count; ++i) ++times_read[i];
                              }};
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
      CAPTURE(name_of(type));
      const int64_t before = ops->memory().held_bytes();
      const Tensor computed = ops->memory().upload_matrix(source, type);
      CHECK(ops->memory().held_bytes() - before ==
            ops->memory().matrix_bytes({nullptr, type, rows, cols, cols}, type));
      const bool is_packed = ops->memory().packs(type);
      if (type == DType::kF16) {
        for (int64_t i = 0; i < rows * cols; ++i) {
          REQUIRE(computed.row<uint16_t>(0)[i] == to_f16(m.tensor.row<float>(0)[i]));
        }
        continue;
      }
      const Tensor uploaded = ops->memory().upload_matrix(m.tensor, type);
      REQUIRE(computed.layout == uploaded.layout);
      CHECK(computed.stride == uploaded.stride);
      const int64_t bytes =
          is_packed ? packed_format(type, options.isa).bytes(rows, cols) : uploaded.bytes();
      CHECK(std::memcmp(computed.data, uploaded.data, static_cast<size_t>(bytes)) == 0);
    }
    for (const auto& times : times_read) REQUIRE(times == 4);
  }
}

TEST_CASE(
    "packed matrices follow one another, and those that begin a region keep the others' bytes") {
  const auto ops = make_cpu_ops({});
  DeviceMemory& memory = ops->memory();
  Random random{5};
  const Matrix small(random, DType::kF32, 70, 130), large(random, DType::kF32, 3000, 5000);
  const auto bytes_of = [&](const Matrix& m) {
    return static_cast<size_t>(memory.matrix_bytes(m.tensor, DType::kI8));
  };
  const auto begin_of = [](const Tensor& t) { return static_cast<const char*>(t.data); };
  const Tensor first = memory.upload_matrix(small.tensor, DType::kI8);
  const std::string packed(begin_of(first), bytes_of(small));
  const auto to_next = static_cast<int64_t>((packed.size() + 63) / 64 * 64);
  std::vector<Tensor> all = {first, memory.upload_matrix(small.tensor, DType::kI8)};
  CHECK(begin_of(all[1]) - begin_of(first) == to_next);
  // 15 MB each: four fill a region.
  for (int i = 0; i < 5; ++i) {
    memory.upload_matrix(large.tensor, DType::kI8);
    all.push_back(memory.upload_matrix(small.tensor, DType::kI8));
  }
  for (const Tensor& matrix : all) {
    CHECK(reinterpret_cast<uintptr_t>(matrix.data) % 64 == 0);
    CHECK(packed == std::string_view(begin_of(matrix), packed.size()));
  }
  CHECK(memory.held_bytes() >=
        static_cast<int64_t>(all.size() * packed.size() + 5 * bytes_of(large)));
}

TEST_CASE("an uploaded sum is host + scale * (b a), rounded once, on each instruction set") {
  Random random{71};
  for (const DType from : kFileTypes) {
    const int64_t rows = random.between(1, 40), cols = random.between(1, 700);
    const int64_t rank = random.between(1, 20);
    const bool is_transposed = random.below(2) == 1;
    CAPTURE(rows);
    CAPTURE(cols);
    CAPTURE(rank);
    CAPTURE(is_transposed);
    const Matrix host(random, from, rows, cols);
    const Matrix a(random, from, is_transposed ? cols : rank, is_transposed ? rank : cols);
    const Matrix b(random, from, is_transposed ? rank : rows, is_transposed ? rows : rank);
    const LowRank update = {a.tensor, b.tensor, is_transposed, random.normal()};
    std::vector<float> sums;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t c = 0; c < cols; ++c) {
        float sum = 0.0f;
        for (int64_t k = 0; k < rank; ++k) {
          const float factor = is_transposed ? b.at(k, i) : b.at(i, k);
          const float product = factor * (is_transposed ? a.at(c, k) : a.at(k, c));
          sum = sum + product;
        }
        const float scaled = sum * update.scale;
        sums.push_back(host.at(i, c) + scaled);
      }
    }
    std::vector<int32_t> all(static_cast<size_t>(rows));
    std::iota(all.begin(), all.end(), 0);
    for (const CpuOptions& options : every_way(DType::kF32)) {
      INFO(name_of(options.isa) << ", " << options.num_threads << " threads");
      const auto ops = make_cpu_ops(options);
      const auto rows_of = [&](const Tensor& table) {
        const BatchView staged = ops->steps().stage({.tokens = all});
        const Tensor out = ops->steps().scratch(DType::kF32, rows, cols);
        ops->arithmetic().embed(table, staged.tokens, 1.0f, out);
        return std::vector<float>(out.row<float>(0), out.row<float>(rows));
      };
      const auto add = [&](const LowRankRow& row, int64_t first, int64_t n, float* y) {
        ops->memory().add_low_rank(row, first, n, y);
      };
      for (const DType type : {DType::kF32, DType::kBF16, DType::kI8}) {
        CAPTURE(name_of(type));
        const Tensor summed =
            ops->memory().upload_matrix(sum_of(stored_rows(host.tensor), update, add), type);
        CHECK(count_differences(rows_of(summed), rows_of(ops->memory().upload_matrix(
                                                     view(sums, rows, cols), type))) == 0);
      }
    }
  }
}

TEST_CASE("embedding looks rows up and scales them") {
  Random random{8};
  for (const DType type : kFileTypes) {
    const Matrix table(random, type, 9, 77);
    const auto ops = make_cpu_ops({.num_threads = 2});
    const BatchView staged = ops->steps().stage({.tokens = {8, 0, 3}});
    const Tensor out = ops->steps().scratch(DType::kF32, 3, 77);
    ops->arithmetic().embed(table.tensor, staged.tokens, 0.3f, out);
    for (int c = 0; c < 77; ++c) {
      CHECK(out.row<float>(0)[c] == table.at(8, c) * 0.3f);
      CHECK(out.row<float>(2)[c] == table.at(3, c) * 0.3f);
    }
  }
}

TEST_CASE("a cache that does not fit is an error that names its bytes") {
  const auto ops = make_cpu_ops({});
  CHECK_THROWS_WITH_AS(ops->memory().allocate_kv(DType::kF32, 8, 128, int64_t{1} << 40),
                       doctest::Contains("4503599627370496"), Error);
}

TEST_CASE("a description names the instruction set and the threads") {
  CHECK(make_cpu_ops({.num_threads = 2})->description() == "cpu (portable, 2 threads)");
  CHECK(make_cpu_ops({})->description() == "cpu (portable, 1 thread)");
}
