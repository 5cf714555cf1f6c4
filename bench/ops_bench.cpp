// Speed of the CPU's attention, sampling and merging of adapters beside their bounds, which are
// measured in the same run: decode attention and sampling beside reading memory, prefill attention
// beside the peak of multiply-adds, merging beside loading alone and half that peak. One thread is
// measured by its CPU time, several by wall time.
//
//   pagedinfer_ops_bench [threads] [instruction set] [decode|long|int8|paging|prefill|sample|merge]
#include <fmt/format.h>

#include <cstring>
#include <numeric>

#include "bench_support.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/low_rank.h"
#include "ops/row_source.h"

namespace pagedinfer {
namespace {

struct Shape {
  int heads, kv_heads, dim;
};

enum class Blocks : bool { kInOrder, kScattered };

// A step of `count` tokens of each sequence, the last ones of `context`.
Batch make_batch(int num_seqs, int context, int count, int block_size,
                 Blocks order = Blocks::kScattered) {
  const int blocks = context / block_size;
  std::vector<int> firsts(static_cast<size_t>(num_seqs) * blocks);
  for (size_t i = 0; i < firsts.size(); ++i) firsts[i] = static_cast<int>(i) * block_size;
  uint32_t random = 1;
  for (size_t i = firsts.size() - 1; i > 0 && order == Blocks::kScattered; --i) {
    random = random * 1664525 + 1013904223;
    std::swap(firsts[i], firsts[(random >> 8) % (i + 1)]);
  }
  Batch batch = {
      .query_starts = {0}, .block_table = firsts, .max_blocks = blocks, .block_size = block_size};
  for (int s = 0; s < num_seqs; ++s) {
    for (int p = context - count; p < context; ++p) {
      batch.tokens.push_back(0);
      batch.positions.push_back(p);
      batch.slot_mapping.push_back(firsts[s * blocks + p / block_size] + p % block_size);
    }
    batch.query_starts.push_back(batch.num_tokens());
    batch.context_lens.push_back(context);
  }
  return batch;
}

void fill(const Tensor& t, unsigned char byte) { std::memset(t.data, byte, t.bytes()); }

class Bench {
 public:
  Bench(int threads, CpuIsa isa)
      : isa_(isa),
        clock_(threads == 1 ? Clock::kThread : Clock::kWall),
        pool_(threads),
        options_{.isa = isa, .num_threads = threads} {}

  // With the caches of so many layers that the processor's cache holds none of them.
  void decode(int batch_size, int context, Shape shape, int block_size = 16,
              Blocks order = Blocks::kScattered) {
    const auto ops = make_cpu_ops(options_);
    const Batch batch = make_batch(batch_size, context, 1, block_size, order);
    const std::vector<KvLayer> caches = make_caches(*ops, int64_t{batch_size} * context, shape);
    const int64_t layer_bytes = caches[0].k.bytes() + caches[0].v.bytes();
    const BatchView staged = ops->steps().stage(batch);
    const Tensor q = ops->steps().scratch(DType::kF32, batch_size, shape.heads * shape.dim);
    const Tensor out = ops->steps().scratch(DType::kF32, batch_size, shape.heads * shape.dim);
    fill(q, 0x3c);
    const auto work = [&] {
      for (const KvLayer& cache : caches) {
        ops->arithmetic().attention(q, cache, staged, args(shape), out);
      }
    };
    const auto read = [&] {
      for (const KvLayer& cache : caches) {
        read_all(pool_, cache.k.data, cache.k.bytes());
        read_all(pool_, cache.v.data, cache.v.bytes());
      }
    };
    const Pair t = medians(clock_, 9, work, read);
    const double gigabytes = 1e-9 * static_cast<double>(std::ssize(caches) * layer_bytes);
    fmt::print(
        "decode   {:2} x {}, {} kv heads of {:3}, group {}, blocks of {:2}{}: {:6.2f} GB/s, "
        "{:.2f} of reading ({:.2f} GB/s)\n",
        batch_size, context, shape.kv_heads, shape.dim, shape.heads / shape.kv_heads, block_size,
        order == Blocks::kInOrder ? " in order" : "", gigabytes / t.work, t.bound / t.work,
        gigabytes / t.bound);
  }

  // Decode attention over an int8 cache beside one of 16 bits, each of several layers as above, and
  // both beside reading memory.
  void int8(int batch_size, int context, Shape shape) {
    const auto ops = make_cpu_ops(options_);
    const Batch batch = make_batch(batch_size, context, 1, 16);
    const int64_t positions = int64_t{batch_size} * context;
    const std::vector<KvLayer> narrow = make_caches(*ops, positions, shape, DType::kI8);
    const std::vector<KvLayer> wide =
        make_caches(*ops, positions, shape, DType::kBF16, static_cast<int>(narrow.size()));
    const BatchView staged = ops->steps().stage(batch);
    const Tensor q = ops->steps().scratch(DType::kF32, batch_size, shape.heads * shape.dim);
    const Tensor out = ops->steps().scratch(DType::kF32, batch_size, shape.heads * shape.dim);
    fill(q, 0x3c);
    const auto attend = [&](const std::vector<KvLayer>& caches) {
      return [&] {
        for (const KvLayer& cache : caches) {
          ops->arithmetic().attention(q, cache, staged, args(shape), out);
        }
      };
    };
    const auto read = [&] {
      for (const KvLayer& cache : wide) {
        read_all(pool_, cache.k.data, cache.k.bytes());
        read_all(pool_, cache.v.data, cache.v.bytes());
      }
    };
    const auto gigabytes = [](const std::vector<KvLayer>& caches) {
      const KvLayer& one = caches[0];
      return 1e-9 * static_cast<double>(std::ssize(caches) *
                                        (one.k.bytes() + one.v.bytes() + 2 * one.k_scale.bytes()));
    };
    const Pair times = medians(clock_, 9, attend(narrow), attend(wide));
    const Pair bound = medians(clock_, 9, attend(wide), read);
    fmt::print(
        "int8     {:2} x {}, {} kv heads of {:3}, group {}: {:.2f} times as fast as bfloat16; "
        "{:.2f} and {:.2f} GB/s, reading {:.2f} GB/s\n",
        batch_size, context, shape.kv_heads, shape.dim, shape.heads / shape.kv_heads,
        times.bound / times.work, gigabytes(narrow) / times.work, gigabytes(wide) / times.bound,
        gigabytes(wide) / bound.bound);
  }

  // What block tables cost the last `count` tokens of each sequence.
  void paging(int num_seqs, int context, int count, Shape shape) {
    const auto ops = make_cpu_ops(options_);
    const std::vector<KvLayer> caches = make_caches(*ops, int64_t{num_seqs} * context, shape);
    const Batch whole = make_batch(num_seqs, context, count, context);
    const Batch in_order = make_batch(num_seqs, context, count, 16, Blocks::kInOrder);
    const Batch scattered = make_batch(num_seqs, context, count, 16, Blocks::kScattered);
    const auto attend = [&](const Batch& batch) {
      return [&] {
        const BatchView staged = ops->steps().stage(batch);
        const Tensor q =
            ops->steps().scratch(DType::kF32, num_seqs * count, shape.heads * shape.dim);
        const Tensor out =
            ops->steps().scratch(DType::kF32, num_seqs * count, shape.heads * shape.dim);
        fill(q, 0x3c);
        for (const KvLayer& cache : caches) {
          ops->arithmetic().attention(q, cache, staged, args(shape), out);
        }
      };
    };
    const Pair look_ups = medians(clock_, 9, attend(in_order), attend(whole));
    const Pair order = medians(clock_, 9, attend(scattered), attend(in_order));
    fmt::print(
        "paging   {} x {} of {}, {} kv heads of {:3}, group {}: blocks of 16 over reservations "
        "{:.3f}, scattered over in order {:.3f}\n",
        num_seqs, count, context, shape.kv_heads, shape.dim, shape.heads / shape.kv_heads,
        look_ups.work / look_ups.bound, order.work / order.bound);
  }

  void prefill(int context, int chunk, Shape shape) {
    const auto ops = make_cpu_ops(options_);
    const Batch batch = make_batch(1, context, chunk, 16);
    const KvLayer cache =
        ops->memory().allocate_kv(DType::kBF16, shape.kv_heads, shape.dim, context);
    fill(cache.k, 0x3c);
    fill(cache.v, 0x3c);
    const BatchView staged = ops->steps().stage(batch);
    const Tensor q = ops->steps().scratch(DType::kF32, chunk, shape.heads * shape.dim);
    const Tensor out = ops->steps().scratch(DType::kF32, chunk, shape.heads * shape.dim);
    fill(q, 0x3c);
    double pairs = 0;
    for (int p = context - chunk; p < context; ++p) pairs += p + 1;
    double operations = 0;
    const Pair t = medians(
        clock_, 9, [&] { ops->arithmetic().attention(q, cache, staged, args(shape), out); },
        [&] { operations = run_peak(pool_, isa_); });
    const double gflops = 4e-9 * pairs * shape.heads * shape.dim / t.work;
    const double peak = 1e-9 * operations / t.bound;
    fmt::print("prefill  {} of {}, {} heads of {:3}, group {}: {:6.1f} GFLOP/s, {:.2f} of {:.0f}\n",
               chunk, context, shape.heads, shape.dim, shape.heads / shape.kv_heads, gflops,
               gflops / peak, peak);
  }

  // Rows of a large vocabulary, for several kinds of sampling.
  void sampling() {
    constexpr int kVocabulary = 128256, kRows = 16;
    const auto ops = make_cpu_ops(options_);
    ops->steps().stage({});
    const Tensor logits = ops->steps().scratch(DType::kF32, kRows, kVocabulary);
    uint64_t random = 1;
    for (int64_t i = 0; i < kRows * kVocabulary; ++i) {  // about normal, of deviation 3
      float sum = 0;
      for (int j = 0; j < 4; ++j) {
        random = random * 6364136223846793005 + 1442695040888963407;
        sum += static_cast<float>(random >> 40) * 0x1p-24f - 0.5f;
      }
      logits.row<float>(0)[i] = 5.2f * sum;
    }
    const std::pair<const char*, SamplingParams> ways[] = {
        {"greedy", {}},
        {"temperature", {.temperature = 0.8f}},
        {"top-k 50", {.temperature = 0.8f, .top_k = 50}},
        {"top-p 0.9", {.temperature = 0.8f, .top_p = 0.9f}},
        {"top-k 50, top-p 0.9", {.temperature = 0.8f, .top_k = 50, .top_p = 0.9f}},
        {"min-p 0.05", {.temperature = 0.8f, .min_p = 0.05f}},
        {"penalty", {.repetition_penalty = 1.1f}},
        {"greedy, 20 log probabilities", {.num_log_probs = 20}},
        {"greedy, 256 log probabilities", {.num_log_probs = 256}}};
    for (const auto& [name, params] : ways) {
      std::vector<SampleRow> rows;
      for (int i = 0; i < kRows; ++i) {
        rows.push_back({.params = &params, .logits_row = i, .num_log_probs = params.num_log_probs});
      }
      std::vector<DrawnToken> tokens(kRows);
      const Pair t = medians(
          clock_, 9, [&] { ops->steps().collect(ops->steps().sample(logits, rows), tokens); },
          [&] { read_all(pool_, logits.data, logits.bytes()); });
      fmt::print("sample   {} of {} ids: {:6.1f} us a row, reading it takes {:.1f}\n", name,
                 kVocabulary, 1e6 * t.work / kRows, 1e6 * t.bound / kRows);
    }
  }

  // An adapter of this rank added to a matrix of a file while it is loaded. Products and sums are
  // rounded apart, so that half the peak of multiply-adds can be reached.
  void merge(int64_t rows, int64_t cols, int64_t rank) {
    std::vector<uint16_t> numbers(static_cast<size_t>(rows * cols), 0x3c3c);
    std::vector<float> a(static_cast<size_t>(rank * cols), 0.1f);
    std::vector<float> b(static_cast<size_t>(rows * rank), 0.1f);
    const Tensor matrix = {numbers.data(), DType::kBF16, rows, cols, cols};
    const LowRank update = {.a = {a.data(), DType::kF32, rank, cols, cols},
                            .b = {b.data(), DType::kF32, rows, rank, rank},
                            .scale = 2.0f};
    const auto load = [&](bool is_merged) {
      const auto ops = make_cpu_ops(options_);
      const auto add = [&](const LowRankRow& row, int64_t first, int64_t n, float* y) {
        ops->memory().add_low_rank(row, first, n, y);
      };
      const RowSource source = stored_rows(matrix);
      ops->memory().upload_matrix(is_merged ? sum_of(source, update, add) : source, DType::kBF16);
    };
    const Pair t = medians(
        clock_, 9, [&] { load(true); }, [&] { load(false); });
    double operations = 0;
    const Pair peak = medians(
        clock_, 9, [&] { load(true); }, [&] { operations = run_peak(pool_, isa_); });
    const double count = 1e-9 * static_cast<double>(rows * cols);
    const double gflops = 2.0 * static_cast<double>(rank) * count / (t.work - t.bound);
    const double most = 1e-9 * operations / peak.bound / 2;
    fmt::print(
        "merge    {} x {}, rank {:3}: {:5.2f} s for 1e9 numbers, loading {:.2f}; adding {:6.1f} "
        "GFLOP/s, {:.2f} of {:.0f}\n",
        rows, cols, rank, t.work / count, t.bound / count, gflops, gflops / most, most);
  }

 private:
  // So many of them or, for 0, 192 MiB or one.
  static std::vector<KvLayer> make_caches(Ops& ops, int64_t positions, Shape shape,
                                          DType type = DType::kBF16, int count = 0) {
    const int64_t bytes =
        positions * ops.memory().kv_bytes_per_position(type, shape.kv_heads, shape.dim);
    if (count == 0) count = static_cast<int>(std::max<int64_t>(1, (int64_t{192} << 20) / bytes));
    std::vector<KvLayer> caches;
    for (int i = 0; i < count; ++i) {
      caches.push_back(ops.memory().allocate_kv(type, shape.kv_heads, shape.dim, positions));
      const KvLayer& cache = caches.back();
      for (const Tensor& part : {cache.k, cache.v, cache.k_scale, cache.v_scale}) {
        if (!part.empty()) fill(part, 0x3c);
      }
    }
    return caches;
  }

  static AttentionArgs args(Shape shape) {
    return {.heads = shape.heads, .kv_heads = shape.kv_heads, .head_dim = shape.dim, .scale = 0.1f};
  }

  const CpuIsa isa_;
  const Clock clock_;
  ThreadPool pool_;
  const CpuOptions options_;
};

void decode_parts(Bench& bench) {
  for (const Shape shape :
       {Shape{32, 8, 128}, Shape{32, 8, 64}, Shape{8, 8, 128}, Shape{4, 2, 32}}) {
    for (const int batch : {1, 8, 64}) {
      for (const int context : {128, 512, 2048}) bench.decode(batch, context, shape);
    }
  }
  for (const int block_size : {1, 8, 32, 64}) bench.decode(8, 2048, {32, 8, 128}, block_size);
}

void long_contexts(Bench& bench) {
  for (const Shape shape : {Shape{32, 8, 128}, Shape{32, 8, 64}}) {
    for (const Blocks order : {Blocks::kInOrder, Blocks::kScattered}) {
      for (const int context : {4096, 16384}) bench.decode(8, context, shape, 16, order);
    }
    bench.prefill(8192, 512, shape);
  }
}

void int8_parts(Bench& bench) {
  for (const Shape shape :
       {Shape{32, 8, 128}, Shape{32, 8, 64}, Shape{16, 8, 128}, Shape{8, 8, 128}}) {
    for (const int context : {2048, 8192}) bench.int8(8, context, shape);
  }
}

void paging_parts(Bench& bench) {
  for (const Shape shape : {Shape{32, 8, 64}, Shape{4, 2, 32}}) {
    for (const int context : {128, 512, 2048, 8192}) bench.paging(8, context, 1, shape);
    bench.paging(1, 2048, 512, shape);
  }
}

void prefill_parts(Bench& bench) {
  for (const Shape shape : {Shape{32, 8, 128}, Shape{8, 8, 64}, Shape{4, 2, 32}}) {
    bench.prefill(2048, 2048, shape);
    bench.prefill(2048, 512, shape);
  }
}

void merge_parts(Bench& bench) {
  for (const int64_t rank : {8, 16, 64, 256}) bench.merge(2048, 8192, rank);
}

// All parts, or the one that is named.
void run(int threads, CpuIsa isa, std::string_view part) {
  fmt::print("{}, {} thread(s)\n", name_of(isa), threads);
  Bench bench(threads, isa);
  const auto asked = [&](std::string_view name) { return part.empty() || part == name; };
  if (asked("decode")) decode_parts(bench);
  if (asked("long")) long_contexts(bench);
  if (asked("int8")) int8_parts(bench);
  if (asked("paging")) paging_parts(bench);
  if (asked("prefill")) prefill_parts(bench);
  if (asked("sample")) bench.sampling();
  if (asked("merge")) merge_parts(bench);
}

}  // namespace
}  // namespace pagedinfer

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  for (const pagedinfer::CpuIsa isa : pagedinfer::available_isas()) {
    if (argc > 2 ? !std::strcmp(argv[2], name_of(isa)) : isa != pagedinfer::CpuIsa::kPortable) {
      pagedinfer::run(threads, isa, argc > 3 ? argv[3] : "");
    }
  }
}
