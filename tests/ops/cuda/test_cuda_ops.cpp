// Every operation of the CUDA backend against the CPU's, over random shapes, strides and
// alignments. Memory that was not written is NaN, and guard bytes around the results must not
// change.
#include <numeric>

#include "ops/low_rank.h"
#include "ops/row_source.h"
#include "tests/support/cuda_support.h"
#include "tests/support/ops_support.h"

namespace pagedinfer {
namespace {

constexpr int kTrials = 25;
constexpr int64_t kRoom = 512 * kMiB;  // each trial allocates anew

ModelSpec spec_of(int heads, int kv_heads, int head_dim) {
  ModelSpec spec;
  spec.heads = heads;
  spec.kv_heads = kv_heads;
  spec.head_dim = head_dim;
  spec.vocab = 1000;
  return spec;
}

// The same numbers on the CPU, as float32, and on the GPU, in the type of a run.
struct Pair {
  std::vector<float> values;
  Tensor cpu;
  GuardedMatrix gpu;

  Pair(CudaOps& ops, DType dtype, int64_t rows, int64_t cols, int64_t gap, Random* random)
      : values(static_cast<size_t>(rows * cols)), gpu(ops, dtype, rows, cols, gap) {
    if (random != nullptr) {
      values = rounded_to(dtype, random->normals(values.size()));
      gpu.set(values);
    }
    cpu = view(values, rows, cols);
  }
  Pair(const Pair&) = delete;

  void check() const {
    const DType dtype = gpu.view().dtype;
    check_close(dtype, gpu.get(), rounded_to(dtype, values));
    CHECK(gpu.guards_are_whole());
  }
};

Tensor upload_ints(CudaOps& ops, const std::vector<int32_t>& values) {
  const Tensor column = ops.memory().allocate(DType::kI32, static_cast<int64_t>(values.size()), 1);
  ops.write(values.data(), column);
  return column;
}
Tensor host_ints(std::vector<int32_t>& values) {
  return {values.data(), DType::kI32, static_cast<int64_t>(values.size()), 1, 1};
}

// Calls trial(random, GPU, CPU, type) for each type, many times.
template <class Trial>
void compare(uint64_t seed, const Trial& trial, int trials = kTrials) {
  if (skips_without_gpu()) return;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const auto cpu =
        make_cpu_ops({.isa = available_isas().back(), .num_threads = 2, .compute = DType::kF32});
    const auto gpu = make_gpu(spec_of(4, 2, 64), {.compute = dtype}, kRoom);
    for (int i = 0; i < gpu_trials(trials); ++i) {
      Random random{seed + static_cast<uint64_t>(i)};
      INFO(std::string(name_of(dtype)), ", trial ", i);
      trial(random, *gpu, *cpu, dtype);
    }
  }
}

// Columns with and without 16-byte alignment of the rows.
int64_t random_cols(Random& random) {
  return random.below(2) ? 8 * random.between(1, 300) : random.between(1, 2000);
}
int64_t random_gap(Random& random) {
  return random.below(2) ? 8 * random.below(4) : random.below(9);
}

}  // namespace

TEST_CASE("on a GPU: rows of a table are gathered and scaled") {
  compare(1, [](Random& random, CudaOps& gpu, Ops& cpu, DType dtype) {
    const int64_t cols = random_cols(random), rows = random.between(1, 70);
    const Pair table(gpu, dtype, 50, cols, random_gap(random), &random);
    std::vector<int32_t> ids(static_cast<size_t>(rows));
    for (int32_t& id : ids) id = random.below(50);
    const float scale = random.below(2) ? 1.0f : 5.65625f;
    const Pair out(gpu, dtype, rows, cols, random_gap(random), nullptr);
    cpu.arithmetic().embed(table.cpu, host_ints(ids), scale, out.cpu);
    gpu.arithmetic().embed(table.gpu.view(), upload_ints(gpu, ids), scale, out.gpu.view());
    check_close(dtype, out.gpu.get(), rounded_to(dtype, out.values));
    const Pair gathered(gpu, dtype, rows, cols, random_gap(random), nullptr);
    cpu.arithmetic().gather_rows(table.cpu, host_ints(ids), gathered.cpu);
    gpu.arithmetic().gather_rows(table.gpu.view(), upload_ints(gpu, ids), gathered.gpu.view());
    CHECK(gathered.gpu.get() == gathered.values);
    CHECK((out.gpu.guards_are_whole() && gathered.gpu.guards_are_whole()));
  });
}

TEST_CASE("on a GPU: norms over rows and heads, with and without a sum before") {
  compare(2, [](Random& random, CudaOps& gpu, Ops& cpu, DType dtype) {
    const int64_t runs = random.below(2) ? 1 : random.between(1, 8);
    const int64_t width = runs == 1 ? random_cols(random) : random.between(1, 260);
    const int64_t rows = random.between(1, 60);
    const Pair x(gpu, dtype, rows, runs * width, random_gap(random), &random);
    const Pair y(gpu, dtype, rows, runs * width, random_gap(random), &random);
    const Pair out(gpu, dtype, rows, runs * width, random_gap(random), nullptr);
    const Pair weight(gpu, DType::kF32, 1, width, 0, &random);
    const float offset = random.below(2) ? 1.0f : 0.0f;
    cpu.arithmetic().rms_norm(x.cpu, weight.cpu, offset, 1e-5f, out.cpu);
    gpu.arithmetic().rms_norm(x.gpu.view(), weight.gpu.view(), offset, 1e-5f, out.gpu.view());
    out.check();
    const Pair sum_norm(gpu, dtype, rows, runs * width, random_gap(random), nullptr);
    cpu.arithmetic().add(x.cpu, y.cpu);
    std::vector<float> rounded = rounded_to(dtype, x.values);
    cpu.arithmetic().rms_norm(view(rounded, rows, runs * width), weight.cpu, offset, 1e-5f,
                              sum_norm.cpu);
    gpu.arithmetic().add_rms_norm(x.gpu.view(), y.gpu.view(), weight.gpu.view(), offset, 1e-5f,
                                  sum_norm.gpu.view());
    sum_norm.check();
    x.check();
    gpu.arithmetic().rms_norm(x.gpu.view(), weight.gpu.view(), offset, 1e-5f,
                              x.gpu.view());  // in place
    check_close(dtype, x.gpu.get(), sum_norm.gpu.get());
    CHECK((x.gpu.guards_are_whole() && y.gpu.guards_are_whole()));
  });
}

TEST_CASE("on a GPU: a norm of a sum with what was normalized itself") {
  compare(12, [](Random& random, CudaOps& gpu, Ops& cpu, DType dtype) {
    const int64_t width = random_cols(random), rows = random.between(1, 60);
    const Pair x(gpu, dtype, rows, width, random_gap(random), &random);
    const Pair y(gpu, dtype, rows, width, random_gap(random), &random);
    const Pair out(gpu, dtype, rows, width, random_gap(random), nullptr);
    const Pair weight(gpu, DType::kF32, 1, width, 0, &random);
    const Pair y_weight(gpu, DType::kF32, 1, width, 0, &random);
    const float offset = random.below(2) ? 1.0f : 0.0f;
    cpu.arithmetic().rms_norm(y.cpu, y_weight.cpu, offset, 1e-5f, y.cpu);
    std::vector<float> normed = rounded_to(dtype, y.values);
    cpu.arithmetic().add(x.cpu, view(normed, rows, width));
    std::vector<float> sum = rounded_to(dtype, x.values);
    cpu.arithmetic().rms_norm(view(sum, rows, width), weight.cpu, offset, 1e-5f, out.cpu);
    gpu.arithmetic().norm_add_rms_norm(x.gpu.view(), y.gpu.view(), y_weight.gpu.view(),
                                       weight.gpu.view(), offset, 1e-5f, out.gpu.view());
    out.check();
    x.check();
    CHECK((x.gpu.guards_are_whole() && out.gpu.guards_are_whole()));
  });
}

TEST_CASE("on a GPU: sums, biases and gated activations") {
  compare(3, [](Random& random, CudaOps& gpu, Ops& cpu, DType dtype) {
    const int64_t cols = random_cols(random), rows = random.between(1, 60);
    const Pair x(gpu, dtype, rows, cols, random_gap(random), &random);
    const Pair y(gpu, dtype, rows, cols, random_gap(random), &random);
    const Pair bias(gpu, dtype, 1, cols, 0, &random);
    const Pair out(gpu, dtype, rows, cols, random_gap(random), nullptr);
    const auto activation = random.below(2) ? Activation::kSilu : Activation::kGeluTanh;
    cpu.arithmetic().gate(x.cpu, y.cpu, activation, out.cpu);
    gpu.arithmetic().gate(x.gpu.view(), y.gpu.view(), activation, out.gpu.view());
    out.check();
    cpu.arithmetic().add(x.cpu, y.cpu);
    gpu.arithmetic().add(x.gpu.view(), y.gpu.view());
    x.check();
    cpu.arithmetic().add_bias(y.cpu, bias.cpu);
    gpu.arithmetic().add_bias(y.gpu.view(), bias.gpu.view());
    y.check();
  });
}

TEST_CASE("on a GPU: products, alone and fused, with 16 bits and float32 out") {
  compare(4, [](Random& random, CudaOps& gpu, Ops& cpu, DType dtype) {
    const int64_t granule = 16 / size_of(dtype);
    const int64_t k = granule * random.between(1, 60), rows = random.between(1, 200);
    const std::vector<int64_t> outputs = {8 * random.between(1, 40), 8 * random.between(1, 20),
                                          8 * random.between(1, 20)};
    const int64_t width = std::accumulate(outputs.begin(), outputs.end(), int64_t{0});
    const float scale = 1 / std::sqrt(static_cast<float>(k));
    const Pair x(gpu, dtype, rows, k, random.below(2) ? 8 : 0, &random);
    const DType out_type = random.below(2) ? dtype : DType::kF32;
    const Pair out(gpu, out_type, rows, width, 8 * random.below(2), nullptr);
    std::vector<std::vector<float>> weights, results;
    std::vector<Product> on_cpu, on_gpu;
    int64_t column = 0;
    for (const int64_t n : outputs) {
      weights.push_back(rounded_to(dtype, random.normals(static_cast<size_t>(n * k), scale)));
      results.emplace_back(static_cast<size_t>(rows * n));
      const Tensor host = view(weights.back(), n, k);
      Tensor part = out.gpu.view();
      part.data = static_cast<char*>(part.data) + column * size_of(out_type);
      part.cols = n;
      on_gpu.push_back({gpu.memory().upload(host, dtype), part});
      column += n;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      on_cpu.push_back({view(weights[i], outputs[i], k), view(results[i], rows, outputs[i])});
    }
    cpu.arithmetic().matmul(x.cpu, on_cpu);
    gpu.arithmetic().matmul(x.gpu.view(), on_gpu);
    std::vector<float> expected;
    for (int64_t row = 0; row < rows; ++row) {
      for (size_t i = 0; i < outputs.size(); ++i) {
        const auto first = results[i].begin() + row * outputs[i];
        expected.insert(expected.end(), first, first + outputs[i]);
      }
    }
    check_close(dtype, out.gpu.get(), rounded_to(out_type, expected));
    CHECK(out.gpu.guards_are_whole());
  });
}

TEST_CASE("on a GPU: products and tables in int8 have the CPU's bits, rounded to the type") {
  compare(13, [](Random& random, CudaOps& gpu, Ops& cpu, DType dtype) {
    const int64_t k = random.between(1, 900), rows = random.between(1, random.below(2) ? 40 : 200);
    const bool fills_panels = random.below(2);
    const Pair x(gpu, dtype, rows, k, random_gap(random), &random);
    const DType out_type = random.below(2) ? dtype : DType::kF32;
    std::vector<int64_t> outputs;
    for (int i = random.between(1, 3); i > 0; --i) {
      outputs.push_back(fills_panels ? 8 * random.between(1, 20) : random.between(1, 160));
    }
    const int64_t width = std::accumulate(outputs.begin(), outputs.end(), int64_t{0});
    const Pair out(gpu, out_type, rows, width, random_gap(random), nullptr);
    std::vector<Product> on_cpu, on_gpu;
    std::vector<std::vector<float>> results;
    int64_t column = 0;
    for (const int64_t n : outputs) {
      std::vector<float> weights = random.normals(static_cast<size_t>(n * k));
      const Tensor host = view(weights, n, k);
      results.emplace_back(static_cast<size_t>(rows * n));
      Tensor part = out.gpu.view();
      part.data = static_cast<char*>(part.data) + column * size_of(out_type);
      part.cols = n;
      on_cpu.push_back(
          {cpu.memory().upload_matrix(host, DType::kI8), view(results.back(), rows, n)});
      on_gpu.push_back({gpu.memory().upload_matrix(host, DType::kI8), part});
      column += n;
    }
    cpu.arithmetic().matmul(x.cpu, on_cpu);
    gpu.arithmetic().matmul(x.gpu.view(), on_gpu);
    std::vector<float> expected;
    for (int64_t row = 0; row < rows; ++row) {
      for (size_t i = 0; i < outputs.size(); ++i) {
        const auto first = results[i].begin() + row * outputs[i];
        expected.insert(expected.end(), first, first + outputs[i]);
      }
    }
    CHECK(out.gpu.get() == rounded_to(out_type, expected));
    CHECK(out.gpu.guards_are_whole());

    const int64_t vocab = on_cpu.front().weight.rows;
    std::vector<int32_t> ids(static_cast<size_t>(rows));
    for (int32_t& id : ids) id = random.below(static_cast<int>(vocab));
    const Pair looked_up(gpu, dtype, rows, k, random_gap(random), nullptr);
    cpu.arithmetic().embed(on_cpu.front().weight, host_ints(ids), 1.25f, looked_up.cpu);
    gpu.arithmetic().embed(on_gpu.front().weight, upload_ints(gpu, ids), 1.25f,
                           looked_up.gpu.view());
    CHECK(looked_up.gpu.get() == rounded_to(dtype, looked_up.values));
    CHECK(looked_up.gpu.guards_are_whole());
  });
}

TEST_CASE("on a GPU: matrices of any type become int8 as on the CPU, whatever their size") {
  compare(
      14,
      [](Random& random, CudaOps& gpu, Ops& cpu, DType dtype) {
        const int64_t cols = random.between(1, 300), rows = random.between(1, 20000);
        for (const DType stored : {DType::kF32, DType::kBF16, DType::kF16}) {
          const std::vector<float> values =
              rounded_to(stored, random.normals(static_cast<size_t>(rows * cols)));
          std::vector<char> bytes(static_cast<size_t>(rows * cols * size_of(stored)));
          convert(values.data(), DType::kF32, bytes.data(), stored, rows * cols);
          const Tensor host = {bytes.data(), stored, rows, cols, cols};
          std::vector<int32_t> ids(500);
          for (int32_t& id : ids) id = random.below(static_cast<int>(rows));
          const Pair out(gpu, dtype, std::ssize(ids), cols, 0, nullptr);
          cpu.arithmetic().embed(cpu.memory().upload_matrix(host, DType::kI8), host_ints(ids), 1.0f,
                                 out.cpu);
          gpu.arithmetic().embed(gpu.memory().upload_matrix(host, DType::kI8),
                                 upload_ints(gpu, ids), 1.0f, out.gpu.view());
          CHECK(out.gpu.get() == rounded_to(dtype, out.values));
        }
      },
      1);
}

TEST_CASE("on a GPU: with --deterministic a row's products do not depend on the rows beside it") {
  if (skips_without_gpu()) return;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const auto gpu = make_gpu(spec_of(4, 2, 64), {.compute = dtype, .deterministic = true}, kRoom);
    Random random{5};
    for (const auto& [n, k] : std::vector<std::pair<int, int>>{
             {96, 64}, {1536, 1152}, {256, 4096}, {5120, 2560}, {61, 24}, {1000, 128}}) {
      if (!is_gpu_case(1) && n * k > 1 << 20) continue;
      INFO(std::string(name_of(dtype)), " ", n, " x ", k);
      std::vector<float> weight =
          random.normals(static_cast<size_t>(n) * static_cast<size_t>(k), 0.05f);
      const Tensor on_gpu = gpu->memory().upload(view(weight, n, k), dtype);
      constexpr int64_t kMaxRows = 700;
      const std::vector<float> x = random.normals(static_cast<size_t>(kMaxRows * k));
      GuardedMatrix all(*gpu, dtype, kMaxRows, k, 0);
      all.set(x);
      const auto run = [&](int64_t first, int64_t rows) {
        Tensor input = all.view();
        input.data = static_cast<char*>(input.data) + first * input.stride * size_of(dtype);
        input.rows = rows;
        const GuardedMatrix out(*gpu, DType::kF32, rows, n, 0);
        const Product product = {on_gpu, out.view()};
        gpu->arithmetic().matmul(input, {&product, 1});
        return out.get();
      };
      const std::vector<float> expected = run(0, kMaxRows);
      for (const int64_t rows : {1, 2, 7, 16, 33, 64, 129, 256, 511}) {
        const int64_t first = random.below(static_cast<int>(kMaxRows - rows));
        const std::vector<float> part = run(first, rows);
        CHECK(count_differences(part, std::span(expected).subspan(static_cast<size_t>(first * n),
                                                                  part.size())) == 0);
      }
    }
  }
}

TEST_CASE("on a GPU: arithmetic_name() names what the bits of a deterministic run depend on") {
  if (skips_without_gpu()) return;
  const auto gpu = make_gpu(spec_of(4, 2, 64), {});
  const std::string name = gpu->arithmetic_name();
  CHECK(name.starts_with(gpu->device_name() + ", cuBLAS "));
  CHECK(name.find_first_of("123456789", gpu->device_name().size()) != std::string::npos);
}

TEST_CASE("on a GPU: rope tables and rotations") {
  compare(6, [](Random& random, CudaOps& gpu, Ops& cpu, DType dtype) {
    const int64_t half = random.between(1, 128), heads = random.between(1, 9);
    const int head_dim = static_cast<int>(2 * half) + (random.below(2) ? 2 * random.below(9) : 0);
    const float scale = random.below(2) ? 1.0f : 1.19f;
    const int64_t rows = random.between(1, 50);
    std::vector<int32_t> positions(static_cast<size_t>(rows));
    for (int32_t& p : positions) p = random.below(random.below(2) ? 100 : 130000);
    std::vector<float> frequencies(static_cast<size_t>(half));
    for (float& f : frequencies) f = std::pow(10000.0f, -random.unit());
    const Tensor host = view(frequencies, 1, half);
    const Pair table(gpu, DType::kF32, rows, 2 * half, random_gap(random), nullptr);
    std::vector<float> factors = {1.0f, 1.3f, 1.7f};
    const Tensor host_factors = random.below(2) ? view(factors, 1, 3) : Tensor();
    const int run = random.between(1, 60000);
    cpu.arithmetic().rope_table(host_ints(positions), host, {scale, host_factors, run}, table.cpu);
    gpu.arithmetic().rope_table(
        upload_ints(gpu, positions), gpu.memory().upload(host, DType::kF32),
        {scale, host_factors.empty() ? Tensor() : gpu.memory().upload(host_factors, DType::kF32),
         run},
        table.gpu.view());
    table.check();
    const Pair x(gpu, dtype, rows, heads * head_dim, random_gap(random), &random);
    cpu.arithmetic().rope(x.cpu, table.cpu, head_dim);
    gpu.arithmetic().rope(x.gpu.view(), table.gpu.view(), head_dim);
    x.check();
  });
}

TEST_CASE("on a GPU: q is normalized and rotated, k and v reach their slots and nothing else") {
  compare(7, [](Random& random, CudaOps& gpu, Ops& cpu, DType dtype) {
    const int kv_heads = random.between(1, 3), heads = kv_heads * random.between(1, 4);
    const int dim = 2 * random.between(1, 128), rows = random.between(1, 40);
    const int num_positions = rows + random.below(30);
    const KvLayer cache = gpu.memory().allocate_kv(dtype, kv_heads, dim, num_positions);
    for (int p = 0; p < num_positions; ++p) poison_position(gpu, cache, p);
    std::vector<int32_t> slots(static_cast<size_t>(num_positions));
    std::iota(slots.begin(), slots.end(), 0);
    for (size_t i = slots.size(); i-- > 1;) {
      std::swap(slots[i], slots[static_cast<size_t>(random.below(static_cast<int>(i) + 1))]);
    }
    slots.resize(static_cast<size_t>(rows));

    const int64_t gap = random_gap(random);
    const Pair q(gpu, dtype, rows, heads * dim, gap, &random);
    const Pair k(gpu, dtype, rows, kv_heads * dim, gap, &random);
    const Pair v(gpu, dtype, rows, kv_heads * dim, gap, &random);
    const Pair weights(gpu, DType::kF32, 2, dim, 0, &random);
    const int rotated = random.below(2) ? dim : 2 * random.between(1, dim / 2);
    const Pair q_table(gpu, DType::kF32, rows, rotated, 0, &random);
    const Pair k_table(gpu, DType::kF32, rows, rotated, 0, &random);
    const bool has_rope = random.below(5) > 0;
    const auto row_of = [](Tensor t, int64_t i) {
      return Tensor{t.row<float>(i), t.dtype, 1, t.cols, t.stride};
    };
    HeadNorms norms = {.offset = 1.0f, .eps = 1e-6f};
    if (random.below(2)) {
      cpu.arithmetic().rms_norm(q.cpu, row_of(weights.cpu, 0), norms.offset, norms.eps, q.cpu);
      cpu.arithmetic().rms_norm(k.cpu, row_of(weights.cpu, 1), norms.offset, norms.eps, k.cpu);
      norms.q = row_of(weights.gpu.view(), 0);
      norms.k = row_of(weights.gpu.view(), 1);
    }
    if (has_rope) {
      cpu.arithmetic().rope(q.cpu, q_table.cpu, dim);
      cpu.arithmetic().rope(k.cpu, k_table.cpu, dim);
    }
    gpu.arithmetic().rotate_and_write_kv(
        q.gpu.view(), k.gpu.view(), v.gpu.view(), norms,
        has_rope ? RopeTables{q_table.gpu.view(), k_table.gpu.view()} : RopeTables(),
        upload_ints(gpu, slots), cache);
    q.check();
    for (const auto& [source, to] : {std::pair{&k, cache.k}, std::pair{&v, cache.v}}) {
      std::vector<char> bytes(static_cast<size_t>(to.bytes()));
      std::vector<float> found(static_cast<size_t>(to.rows * to.cols)), written, expected;
      gpu.read(to, bytes.data());
      convert(bytes.data(), dtype, found.data(), DType::kF32, to.rows * to.cols);
      for (int head = 0; head < kv_heads; ++head) {
        for (int p = 0; p < num_positions; ++p) {
          const auto place = std::find(slots.begin(), slots.end(), p);
          const float* const at = &found[static_cast<size_t>((head * num_positions + p) * to.cols)];
          if (place == slots.end()) {
            for (int c = 0; c < dim; ++c) CHECK(std::isnan(at[c]));
            continue;
          }
          const auto row = place - slots.begin();
          const float* const wanted = source->cpu.row<float>(row) + head * dim;
          written.insert(written.end(), at, at + dim);
          expected.insert(expected.end(), wanted, wanted + dim);
        }
      }
      check_close(dtype, written, rounded_to(dtype, expected));
    }
  });
}

TEST_CASE("on a GPU: a matrix whose rows are computed arrives as if it were uploaded") {
  compare(
      8,
      [](Random& random, CudaOps& gpu, Ops&, DType dtype) {
        const int64_t cols = random.between(1, 3000), rows = random.between(1, 3000);
        const std::vector<float> values = random.normals(static_cast<size_t>(rows * cols));
        const RowSource source = {rows, cols, [&](int64_t first, int64_t count, float* out) {
                                    std::copy_n(values.data() + first * cols, count * cols, out);
                                  }};
        const Tensor on_gpu = gpu.memory().upload_matrix(source, dtype);
        CHECK(on_gpu.rows == rows);
        CHECK(on_gpu.cols == cols);
        std::vector<char> back(static_cast<size_t>(on_gpu.bytes()));
        gpu.read(on_gpu, back.data());
        std::vector<float> found(values.size());
        convert(back.data(), dtype, found.data(), DType::kF32, rows * cols);
        CHECK(found == rounded_to(dtype, values));
      },
      1);
}

TEST_CASE("on a GPU: an uploaded sum is host + scale * (b a), rounded once") {
  compare(
      8,
      [](Random& random, CudaOps& gpu, Ops&, DType dtype) {
        const int64_t cols = random.between(1, 900), rows = random.between(1, 3000), rank = 3;
        std::vector<float> host = random.normals(static_cast<size_t>(rows * cols));
        std::vector<float> a = random.normals(static_cast<size_t>(rank * cols));
        std::vector<float> b = random.normals(static_cast<size_t>(rows * rank));
        const LowRank update = {view(a, rank, cols), view(b, rows, rank), false, 0.7f};
        const Tensor on_gpu = gpu.memory().upload_matrix(
            sum_of(stored_rows(view(host, rows, cols)), update, add_low_rank), dtype);
        std::vector<char> back(static_cast<size_t>(on_gpu.bytes()));
        gpu.read(on_gpu, back.data());
        std::vector<float> found(host.size()), sums = host;
        convert(back.data(), dtype, found.data(), DType::kF32, rows * cols);
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t c = 0; c < cols; ++c) {
            float sum = 0.0f;
            for (int64_t k = 0; k < rank; ++k) sum += b[i * rank + k] * a[k * cols + c];
            sums[i * cols + c] += sum * update.scale;
          }
        }
        CHECK(found == rounded_to(dtype, sums));
      },
      1);
}

TEST_CASE("on a GPU: uploads arrive converted, whatever the size of their pieces") {
  compare(
      8,
      [](Random& random, CudaOps& gpu, Ops&, DType dtype) {
        const int64_t cols = random.between(1, 3000), rows = random.between(1, 9000);
        for (const DType stored : {DType::kF32, DType::kBF16, DType::kF16}) {
          const std::vector<float> values =
              rounded_to(stored, random.normals(static_cast<size_t>(rows * cols)));
          std::vector<char> bytes(static_cast<size_t>(rows * cols * size_of(stored)));
          convert(values.data(), DType::kF32, bytes.data(), stored, rows * cols);
          const Tensor on_gpu =
              gpu.memory().upload({bytes.data(), stored, rows, cols, cols}, dtype);
          std::vector<char> back(static_cast<size_t>(on_gpu.bytes()));
          gpu.read(on_gpu, back.data());
          std::vector<float> found(values.size());
          convert(back.data(), dtype, found.data(), DType::kF32, rows * cols);
          CHECK(found == rounded_to(dtype, values));
        }
      },
      1);
}

}  // namespace pagedinfer
