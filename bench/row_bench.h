// Benchmarks of the row-wise operations of a step, between products and attention.
#pragma once

#include <string>
#include <vector>

#include "gpu_bench.h"
#include "kernels/drawn_tokens.h"
#include "kernels/elementwise.h"
#include "kernels/kv.h"
#include "kernels/norm.h"
#include "kernels/rope.h"

namespace pagedinfer {

inline void rows_of(Bench& bench, const Shape& s, int64_t rows) {
  const std::string shape = fmt::format("{} rows={}", s.model, rows);
  const auto matrix = [&](int64_t cols) {
    return kernels::Matrix{bench.input(rows * cols * 2), cols};
  };
  const auto output = [&](int64_t cols) {
    return kernels::Matrix{bench.output(rows * cols * 2), cols};
  };
  const auto changed = [&](int64_t cols) {
    return kernels::Matrix{bench.changed(rows * cols * 2), cols};
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
                           .table = {bench.input(int64_t{s.vocab} * s.hidden * 2), s.hidden},
                           .tokens = tokens,
                           .scale = 1.0f,
                           .out = output(s.hidden),
                           .num_rows = rows,
                           .cols = s.hidden},
                          bench.stream());
  });
  // After the first launch no placeholder is left: what is timed is the launch.
  auto* const unseen = const_cast<int32_t*>(
      bench.upload(std::vector<int32_t>(static_cast<size_t>(rows), int32_t{-1})));
  bench.measure("resolve_tokens", shape, {.bytes = 4.0 * static_cast<double>(rows)}, [&](int) {
    kernels::launch_resolve_tokens({unseen, tokens, rows}, bench.stream());
  });
  const auto norm = [&](bool with_sum) {
    kernels::launch_rms_norm(
        {.type = Type::kBF16,
         .x = matrix(s.hidden),
         .residual = with_sum ? changed(s.hidden) : kernels::Matrix{nullptr, 0},
         .weight = weight,
         .offset = 0,
         .eps = 1e-6f,
         .out = output(s.hidden),
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
                          .out = output(s.intermediate),
                          .num_rows = rows,
                          .cols = s.intermediate,
                          .gelu_tanh = s.window > 0},
                         bench.stream());
  });
  const int64_t q_cols = int64_t{s.heads} * s.head_dim, kv_cols = int64_t{s.kv_heads} * s.head_dim;
  bench.measure("qkv", shape, {.bytes = 2 * bytes(q_cols) + 4 * bytes(kv_cols)}, [&](int) {
    const kernels::Matrix qkv = changed(q_cols + 2 * kv_cols);
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
                         .q_table = table,
                         .k_table = table,
                         .table_stride = s.head_dim,
                         .half = s.head_dim / 2,
                         .slot_mapping = slot_mapping,
                         .cache = {bench.output(cache_bytes), bench.output(cache_bytes), s.kv_heads,
                                   s.head_dim, rows}},
                        bench.stream());
  });
  bench.measure("gather_rows", shape, {.bytes = 2 * bytes(s.hidden)}, [&](int) {
    kernels::launch_gather_rows({.type = Type::kBF16,
                                 .x = matrix(s.hidden),
                                 .indices = slot_mapping,
                                 .out = output(s.hidden),
                                 .num_rows = rows,
                                 .cols = s.hidden},
                                bench.stream());
  });
  bench.measure("add", shape, {.bytes = 3 * bytes(s.hidden)}, [&](int) {
    kernels::launch_add({.type = Type::kBF16,
                         .x = changed(s.hidden),
                         .y = matrix(s.hidden),
                         .num_rows = rows,
                         .cols = s.hidden,
                         .y_is_one_row = false},
                        bench.stream());
  });
  bench.measure("rope_table", shape, {.bytes = 2 * bytes(s.head_dim)}, [&](int) {
    kernels::launch_rope_table({.positions = slot_mapping,
                                .inv_freq = table,
                                .out = bench.output<float>(rows * s.head_dim * 4),
                                .out_stride = s.head_dim,
                                .num_rows = rows,
                                .half = s.head_dim / 2},
                               bench.stream());
  });
  bench.measure("rope", shape, {.bytes = 2 * bytes(q_cols)}, [&](int) {
    kernels::launch_rope({.type = Type::kBF16,
                          .x = changed(q_cols),
                          .table = table,
                          .table_stride = s.head_dim,
                          .num_rows = rows,
                          .heads = s.heads,
                          .head_dim = s.head_dim,
                          .half = s.head_dim / 2},
                         bench.stream());
  });
  const auto cache = [&](int64_t positions) {
    const int64_t cache_bytes =
        positions * kernels::kv_position_bytes(Type::kBF16, s.kv_heads, s.head_dim);
    return kernels::KvCache{bench.changed(cache_bytes), bench.changed(cache_bytes), s.kv_heads,
                            s.head_dim, positions};
  };
  bench.measure("write_kv", shape, {.bytes = 4 * bytes(kv_cols)}, [&](int) {
    kernels::launch_write_kv({.type = Type::kBF16,
                              .k = matrix(kv_cols),
                              .v = matrix(kv_cols),
                              .slot_mapping = slot_mapping,
                              .num_rows = rows,
                              .cache = cache(rows)},
                             bench.stream());
  });
  constexpr int kBlock = 16;
  std::vector<int32_t> from, to;
  for (int i = 0; i < static_cast<int>(rows) / kBlock; ++i) {
    from.push_back(2 * i * kBlock), to.push_back((2 * i + 1) * kBlock);
  }
  const std::vector<int32_t> counts(from.size(), kBlock);
  const int32_t *const sources = bench.upload(from), *const places = bench.upload(to),
                       *const lengths = bench.upload(counts);
  bench.measure("copy_kv", shape, {.bytes = 4 * bytes(kv_cols)}, [&](int) {
    kernels::launch_copy_kv({.type = Type::kBF16,
                             .from = sources,
                             .to = places,
                             .counts = lengths,
                             .num_copies = static_cast<int>(from.size()),
                             .cache = cache(2 * rows)},
                            bench.stream());
  });
}

}  // namespace pagedinfer
