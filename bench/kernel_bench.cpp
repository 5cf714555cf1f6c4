// Speed of the GPU's kernels and products beside what bounds them, measured in the same run: the
// bandwidth of a large copy, counting bytes read and written, and the rate of a large bfloat16
// product. Bytes and arithmetic are counted by hand. A line of JSON each.
//
//   pagedinfer_kernel_bench [part of a name]
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "gpu_bench.h"
#include "kernels/attention.h"
#include "kernels/drawn_tokens.h"
#include "kernels/elementwise.h"
#include "kernels/kv.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "kernels/sample.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/products.h"

namespace pagedinfer {
namespace {

using kernels::Type;

// Of a step, with the sizes of real models.
struct Shape {
  const char* model;
  int hidden, heads, kv_heads, head_dim, intermediate, vocab, window;
};
constexpr Shape kShapes[] = {
    {"llama-3.2-3b", 3072, 24, 8, 128, 8192, 128256, 0},
    {"qwen3-4b", 2560, 32, 8, 128, 9728, 151936, 0},
    {"gemma-3-1b", 1152, 4, 1, 256, 6912, 262144, 512},
};

// `count` last tokens of each of the sequences' `context`, in blocks in random order. Blocks as
// long as the context are the contiguous cache.
void attention(Bench& bench, const Shape& s, int num_seqs, int context, int count, const char* name,
               int block_size = 16) {
  const int blocks = context / block_size, group = s.heads / s.kv_heads;
  const int64_t positions = int64_t{num_seqs} * context;
  const int64_t layer_bytes = kernels::kv_position_bytes(Type::kBF16, s.kv_heads, s.head_dim);
  if (2 * positions * layer_bytes > (int64_t{3} << 30)) return;
  std::vector<int32_t> table(static_cast<size_t>(num_seqs) * blocks), starts = {0}, at;
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i) * block_size;
  uint32_t random = 1;
  for (size_t i = table.size() - 1; i > 0; --i) {
    random = random * 1664525 + 1013904223;
    std::swap(table[i], table[(random >> 8) % (i + 1)]);
  }
  double pairs = 0, keys = 0;  // of queries and keys; of keys that are read
  for (int i = 0; i < num_seqs; ++i) {
    for (int p = context - count; p < context; ++p) {
      at.push_back(p);
      pairs += s.window > 0 ? std::min(p + 1, s.window) : p + 1;
    }
    starts.push_back(static_cast<int32_t>(at.size()));
    keys += s.window > 0 ? std::min(context, s.window + count - 1) : context;
  }
  kernels::AttentionPlan plan;
  constexpr int64_t kStates = 32768;
  kernels::plan_attention(starts, at, group, kStates, plan);
  bench.forget_lists();
  const auto work_of = [&](const kernels::AttentionTiles& tiles) {
    return kernels::AttentionWork{bench.upload(tiles.items), bench.upload(tiles.combines),
                                  static_cast<int>(tiles.items.size()),
                                  static_cast<int>(tiles.combines.size())};
  };
  const int64_t rows = std::ssize(at), q_width = int64_t{s.heads} * s.head_dim;
  kernels::AttentionArgs args = {};
  args.type = Type::kBF16;
  args.heads = s.heads;
  args.scale = 0.088f;
  args.window = s.window;
  args.positions = bench.upload(at);
  args.query_starts = bench.upload(starts);
  args.block_table = bench.upload(table);
  args.num_tokens = static_cast<int>(rows);
  args.num_seqs = num_seqs;
  args.max_blocks = blocks;
  args.block_size = block_size;
  args.small = work_of(plan.small);
  args.large = work_of(plan.large);
  args.num_states = plan.num_states;
  const int64_t workspace = kernels::attention_workspace_bytes(kStates, s.kv_heads, s.head_dim);
  bench.measure(
      name, fmt::format("{} seqs={} context={} queries={}", s.model, num_seqs, context, count),
      {.bytes =
           2 * keys * static_cast<double>(layer_bytes) + 4.0 * static_cast<double>(rows * q_width),
       .flops = 4 * pairs * static_cast<double>(q_width)},
      [&](int) {
        const int64_t bytes = positions * layer_bytes;
        args.cache = {bench.buffer(bytes), bench.buffer(bytes), s.kv_heads, s.head_dim, positions};
        args.q = {bench.buffer(rows * q_width * 2), q_width};
        args.out = {bench.buffer(rows * q_width * 2), q_width};
        args.workspace = bench.buffer(workspace);
        kernels::launch_attention(args, bench.stream());
      });
}

// What touches rows once.
void rows_of(Bench& bench, const Shape& s, int64_t rows) {
  const std::string shape = fmt::format("{} rows={}", s.model, rows);
  const auto matrix = [&](int64_t cols) {
    return kernels::Matrix{bench.buffer(rows * cols * 2), cols};
  };
  const auto bytes = [&](int64_t cols) { return 2.0 * static_cast<double>(rows * cols); };
  bench.forget_lists();
  std::vector<int32_t> ids(static_cast<size_t>(rows)), slots(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(i * 7919 % static_cast<size_t>(s.vocab));
    slots[i] = static_cast<int32_t>(i);
  }
  const int32_t *tokens = bench.upload(ids), *slot_mapping = bench.upload(slots);
  const float* weight = bench.upload(std::vector<float>(static_cast<size_t>(s.hidden), 1.0f));
  const float* table =
      bench.upload(std::vector<float>(static_cast<size_t>(rows * s.head_dim), 0.7f));

  bench.measure("embed", shape, {.bytes = 2 * bytes(s.hidden)}, [&](int) {
    kernels::launch_embed({.type = Type::kBF16,
                           .table = {bench.buffer(int64_t{s.vocab} * s.hidden * 2), s.hidden},
                           .tokens = tokens,
                           .scale = 1.0f,
                           .out = matrix(s.hidden),
                           .num_rows = rows,
                           .cols = s.hidden},
                          bench.stream());
  });
  // All seen after the first turn: the launch is what it costs.
  auto* const unseen = const_cast<int32_t*>(
      bench.upload(std::vector<int32_t>(static_cast<size_t>(rows), int32_t{-1})));
  bench.measure("resolve_tokens", shape, {.bytes = 4.0 * static_cast<double>(rows)}, [&](int) {
    kernels::launch_resolve_tokens({unseen, tokens, rows}, bench.stream());
  });
  const auto norm = [&](bool with_sum) {
    kernels::launch_rms_norm({.type = Type::kBF16,
                              .x = matrix(s.hidden),
                              .residual = with_sum ? matrix(s.hidden) : kernels::Matrix{nullptr, 0},
                              .weight = weight,
                              .offset = 0,
                              .eps = 1e-6f,
                              .out = matrix(s.hidden),
                              .num_rows = rows,
                              .runs = 1,
                              .width = s.hidden},
                             bench.stream());
  };
  bench.measure("rms_norm", shape, {.bytes = 2 * bytes(s.hidden)}, [&](int) { norm(false); });
  bench.measure("add_rms_norm", shape, {.bytes = 4 * bytes(s.hidden)}, [&](int) { norm(true); });
  bench.measure("gate", shape, {.bytes = 3 * bytes(s.intermediate)}, [&](int) {
    kernels::launch_gate({.type = Type::kBF16,
                          .gate = matrix(s.intermediate),
                          .up = matrix(s.intermediate),
                          .out = matrix(s.intermediate),
                          .num_rows = rows,
                          .cols = s.intermediate,
                          .gelu_tanh = s.window > 0},
                         bench.stream());
  });
  const int64_t q_cols = int64_t{s.heads} * s.head_dim, kv_cols = int64_t{s.kv_heads} * s.head_dim;
  bench.measure("qkv", shape, {.bytes = 2 * bytes(q_cols) + 4 * bytes(kv_cols)}, [&](int) {
    const kernels::Matrix qkv = matrix(q_cols + 2 * kv_cols);
    auto* const data = static_cast<uint16_t*>(qkv.data);
    const int64_t cache_bytes =
        rows * kernels::kv_position_bytes(Type::kBF16, s.kv_heads, s.head_dim);
    kernels::launch_qkv({.type = Type::kBF16,
                         .q = qkv,
                         .k = {data + q_cols, qkv.stride},
                         .v = {data + q_cols + kv_cols, qkv.stride},
                         .num_rows = rows,
                         .heads = s.heads,
                         .q_weight = weight,
                         .k_weight = weight,
                         .offset = 0,
                         .eps = 1e-6f,
                         .table = table,
                         .table_stride = s.head_dim,
                         .slot_mapping = slot_mapping,
                         .cache = {bench.buffer(cache_bytes), bench.buffer(cache_bytes), s.kv_heads,
                                   s.head_dim, rows}},
                        bench.stream());
  });
}

void sampling(Bench& bench, const Shape& s, int rows, bool drawn, bool filtered) {
  bench.forget_lists();
  kernels::SampleRowArgs row = {};
  row.temperature = drawn ? 0.8f : 0.0f;
  row.top_p = filtered ? 0.95f : 1.0f;
  row.top_k = filtered ? 50 : 0;
  row.repetition_penalty = 1.0f;
  const auto* args =
      bench.upload(std::vector<kernels::SampleRowArgs>(static_cast<size_t>(rows), row));
  const int64_t bytes = int64_t{rows} * s.vocab * 4;
  bench.measure(filtered ? "sample_filtered"
                : drawn  ? "sample_drawn"
                         : "sample_greedy",
                fmt::format("{} rows={}", s.model, rows), {.bytes = static_cast<double>(bytes)},
                [&](int) {
                  kernels::SampleArgs sample = {};
                  sample.logits = bench.buffer<float>(bytes);
                  sample.stride = s.vocab;
                  sample.num_rows = rows;
                  sample.vocabulary = s.vocab;
                  sample.rows = args;
                  sample.any_drawn = drawn;
                  sample.any_filtered = filtered;
                  sample.out = bench.buffer<int32_t>(int64_t{rows} * 4);
                  sample.workspace = bench.buffer(kernels::sample_workspace_bytes(rows, s.vocab));
                  kernels::launch_sample(sample, bench.stream());
                });
}

void products(Bench& bench, CudaProducts& by, const char* name, const Shape& s, int64_t rows) {
  const int64_t q_cols = int64_t{s.heads} * s.head_dim, kv_cols = int64_t{s.kv_heads} * s.head_dim;
  struct Size {
    const char* what;
    int64_t n, k;
  };
  for (const Size& size :
       {Size{"qkv", q_cols + 2 * kv_cols, s.hidden}, Size{"attention_out", s.hidden, q_cols},
        Size{"gate_up", 2 * int64_t{s.intermediate}, s.hidden},
        Size{"down", s.hidden, s.intermediate}}) {
    const double n = static_cast<double>(size.n), k = static_cast<double>(size.k),
                 m = static_cast<double>(rows);
    bench.measure(name,
                  fmt::format("{} {} rows={} n={} k={}", s.model, size.what, rows, size.n, size.k),
                  {.bytes = 2 * (n * k + m * k + m * n), .flops = 2 * n * k * m}, [&](int) {
                    const auto matrix = [&](int64_t r, int64_t c) {
                      return Tensor{bench.buffer(r * c * 2), DType::kBF16, r, c, c};
                    };
                    const Product product = {matrix(size.n, size.k), matrix(rows, size.n)};
                    by.run(matrix(rows, size.k), {&product, 1},
                           bench.buffer(kProductWorkspaceBytes), bench.stream());
                  });
  }
}

// 8,192 in each direction, as libraries' peaks are quoted.
void peak(Bench& bench, CudaProducts& by) {
  constexpr int64_t kSize = 8192;
  bench.measure_peak(2.0 * kSize * kSize * kSize, [&](int) {
    const auto matrix = [&] {
      return Tensor{bench.buffer(kSize * kSize * 2), DType::kBF16, kSize, kSize, kSize};
    };
    const Tensor x = matrix();
    const Product product = {matrix(), matrix()};
    by.run(x, {&product, 1}, bench.buffer(kProductWorkspaceBytes), bench.stream());
  });
}

void run(std::string_view only) {
  if (const std::string problem = cuda_problem(); !problem.empty()) throw Error(problem);
  Bench bench(only);
  CudaProducts fastest(false), deterministic(true);
  peak(bench, fastest);
  for (const Shape& s : kShapes) {
    for (const int seqs : {1, 8, 64, 256}) {
      for (const int context : {512, 2048, 4096, 32768}) {
        attention(bench, s, seqs, context, 1, "attention_decode");
      }
    }
    attention(bench, s, 64, 2048, 1, "attention_decode_contiguous", 2048);
    for (const int queries : {512, 2048, 4096, 8192, 16384})
      attention(bench, s, 1, queries, queries, "attention_prefill");
    attention(bench, s, 4, 8192, 512, "attention_chunk");
    for (const int64_t rows : {64, 2048}) rows_of(bench, s, rows);
    for (const int rows : {1, 64, 256}) {
      sampling(bench, s, rows, false, false);
      sampling(bench, s, rows, true, false);
      sampling(bench, s, rows, true, true);
    }
    for (const int64_t rows : {1, 16, 64, 256, 2048}) {
      products(bench, fastest, "product", s, rows);
      products(bench, deterministic, "product_deterministic", s, rows);
    }
  }
}

}  // namespace
}  // namespace pagedinfer

int main(int argc, char** argv) {
  try {
    pagedinfer::run(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pagedinfer_kernel_bench: %s\n", error.what());
    return 1;
  }
}
