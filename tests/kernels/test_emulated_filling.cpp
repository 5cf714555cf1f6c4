// Decode steps that are padded with rows of no sequence: the source of the GPU's kernels, run on
// the CPU, gives the other rows the same bits and writes nothing for the padding.
#include <doctest/doctest.h>

#include "kernels/attention.h"
#include "kernels/kv.h"
#include "kernels/rope.h"
#include "ops/cuda/step_arrays.h"
#include "tests/emulated_cuda/device_support.h"
#include "tests/support/cuda_batches.h"

namespace pagedinfer::kernels {
namespace {

struct Shape {
  int heads, kv_heads, dim, window;
};

// The results of one step.
template <class T>
struct Outcome {
  std::vector<T> q, out;              // of the batch's rows
  std::vector<unsigned char> caches;  // all four of them
  bool padding_is_untouched = true;   // padding rows of `out`
};

template <class T>
bool same_bytes(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// Computes a layer's attention in a step: rotates q and k, writes k and v, attends. The inputs
// depend on the seed only. NaNs surround the cache.
template <class T>
Outcome<T> compute(uint64_t seed, const Shape& shape, const StepBounds& bounds, const Batch& batch,
                   int64_t num_positions, bool is_padded) {
  const AttentionShape attention = {shape.heads, shape.kv_heads, shape.dim, {shape.window}};
  std::vector<AttentionPlan> plans;
  plan_step(batch, attention, attention_limits(attention, bounds, 1), plans);
  StepShape step = shape_of(batch, plans);
  if (is_padded) step = padded(step, attention, bounds);
  const StepArrays at = lay_out(step);
  std::vector<int32_t> numbers(static_cast<size_t>(at.size));
  pack(batch, plans, step, numbers.data());
  const auto ints = [&](const PackedRange& range) { return numbers.data() + range.first; };

  const int q_width = shape.heads * shape.dim, kv_width = shape.kv_heads * shape.dim;
  Random random{seed}, layout{1};
  const auto rows = static_cast<int>(step.tokens), own = batch.num_tokens();
  GuardedMatrix<T> q(layout, rows, q_width, true), out(layout, rows, q_width, true),
      k(layout, rows, kv_width, true), v(layout, rows, kv_width, true);
  for (auto [x, width] : {std::pair{&q, q_width}, {&k, kv_width}, {&v, kv_width}}) {
    for (int i = 0; i < rows; ++i) {
      Random& source = i < own ? random : layout;
      for (int j = 0; j < width; ++j) x->at(i, j) = from_float<T>(source.normal());
    }
  }
  const int64_t row = kv_row_elements(shape.dim, sizeof(T));
  const int64_t elements = num_positions * shape.kv_heads * row, gap = 4096 * row;
  std::vector<NanBytes> memory(4, NanBytes((elements + 2 * gap) * int64_t{sizeof(T)}));
  const auto cache_in = [&](int first) {
    return KvCache{memory[static_cast<size_t>(first)].template as<T>() + gap,
                   memory[static_cast<size_t>(first) + 1].template as<T>() + gap, shape.kv_heads,
                   shape.dim, num_positions};
  };
  const KvCache cache = cache_in(0), second = cache_in(2);
  for (int s = 0; s < own; ++s) {
    for (int p = 0; p < batch.positions[static_cast<size_t>(s)]; ++p) {
      const int slot = cache_position(&batch.block_table[static_cast<size_t>(s * batch.max_blocks)],
                                      block_divisor(batch.block_size), p);
      for (int h = 0; h < shape.kv_heads; ++h) {
        for (int d = 0; d < shape.dim; ++d) {
          const int64_t i = kv_offset(h, slot, num_positions, static_cast<int>(row)) + d;
          static_cast<T*>(cache.k)[i] = from_float<T>(random.normal());
          static_cast<T*>(cache.v)[i] = from_float<T>(random.normal());
        }
      }
    }
  }

  const int half = shape.dim / 2;
  std::vector<float> inv_freq(static_cast<size_t>(half));
  for (int i = 0; i < half; ++i) inv_freq[static_cast<size_t>(i)] = std::pow(0.9f, float(i));
  GuardedMatrix<float> table(layout, rows, shape.dim, true);
  float* const angles = static_cast<float*>(table.matrix().data);
  launch_rope_table(
      {ints(at.positions), inv_freq.data(), angles, table.matrix().stride, rows, half}, nullptr);
  launch_write_kv({kTypeOf<T>, k.matrix(), v.matrix(), ints(at.slot_mapping), rows, second},
                  nullptr);
  launch_qkv({.type = kTypeOf<T>,
              .q = q.matrix(),
              .k = k.matrix(),
              .v = v.matrix(),
              .num_rows = rows,
              .heads = shape.heads,
              .q_weight = nullptr,
              .k_weight = nullptr,
              .offset = 0,
              .eps = 0,
              .q_table = angles,
              .k_table = angles,
              .table_stride = table.matrix().stride,
              .half = half,
              .slot_mapping = ints(at.slot_mapping),
              .cache = cache},
             nullptr);
  const auto work = [&](const PackedRange& items, int64_t num_items) {
    return AttentionWork{reinterpret_cast<const AttentionItem*>(ints(items)),
                         static_cast<int>(num_items)};
  };
  const PlanShape& sizes = step.plans[0];
  NanBytes workspace(attention_workspace_bytes(sizes.states, shape.kv_heads, shape.dim));
  std::vector<uint32_t> counters(
      static_cast<size_t>(attention_counters(step.sequences, shape.kv_heads)));
  launch_attention({.type = kTypeOf<T>,
                    .q = q.matrix(),
                    .out = out.matrix(),
                    .cache = cache,
                    .heads = shape.heads,
                    .scale = 1 / std::sqrt(static_cast<float>(shape.dim)),
                    .window = shape.window,
                    .positions = ints(at.positions),
                    .query_starts = ints(at.query_starts),
                    .block_table = ints(at.block_table),
                    .num_tokens = rows,
                    .num_seqs = static_cast<int>(step.sequences),
                    .max_blocks = static_cast<int>(step.max_blocks),
                    .block_size = batch.block_size,
                    .small = work(at.plans[0].small_items, sizes.small_items),
                    .large = work(at.plans[0].large_items, sizes.large_items),
                    .num_states = sizes.states,
                    .max_shared_bytes = 227 << 10,
                    .workspace = workspace.as<void>(),
                    .counters = counters.data()},
                   nullptr);

  Outcome<T> outcome;
  bool all_are_numbers = true;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < q_width; ++j) {
      if (i < own) {
        outcome.q.push_back(q.at(i, j));
        outcome.out.push_back(out.at(i, j));
        all_are_numbers &= !std::isnan(out(i, j));
      } else if (!std::isnan(out(i, j)) && out(i, j) != 0) {
        outcome.padding_is_untouched = false;
      }
    }
  }
  for (NanBytes& bytes : memory) {
    const auto* const begin = bytes.as<unsigned char>();
    outcome.caches.insert(outcome.caches.end(), begin,
                          begin + (elements + 2 * gap) * int64_t{sizeof(T)});
  }
  CHECK(all_are_numbers);
  CHECK(q.guards_are_whole());
  CHECK(out.guards_are_whole());
  return outcome;
}

template <class T>
void check(Random& random, const Shape& shape, int context) {
  CAPTURE(shape.dim);
  CAPTURE(shape.heads);
  const StepBounds bounds = {
      .tokens = 20, .sequences = 13, .context = context, .block_size = random.between(1, 40)};
  Batch batch = random_decodes(random, bounds);
  const int first = random.below(9);
  for (size_t i = 0; i < batch.block_table.size(); ++i) {  // each sequence has its own blocks
    if (batch.block_table[i] < 0) continue;
    batch.block_table[i] =
        first + static_cast<int>(batch.block_table.size() - 1 - i) * bounds.block_size;
  }
  for (int s = 0; s < batch.num_tokens(); ++s) {
    batch.slot_mapping[static_cast<size_t>(s)] =
        cache_position(&batch.block_table[static_cast<size_t>(s * batch.max_blocks)],
                       block_divisor(bounds.block_size), batch.positions[static_cast<size_t>(s)]);
  }
  const int64_t positions =
      first + static_cast<int64_t>(batch.block_table.size()) * bounds.block_size;
  const uint64_t seed = random.bits();
  const auto alone = compute<T>(seed, shape, bounds, batch, positions, false);
  const auto filled = compute<T>(seed, shape, bounds, batch, positions, true);
  CHECK(same_bytes(filled.q, alone.q));
  CHECK(same_bytes(filled.out, alone.out));
  CHECK(same_bytes(filled.caches, alone.caches));
  CHECK(filled.padding_is_untouched);
}

}  // namespace

TEST_CASE("padding rows of a step change no other row and write nothing") {
  Random random{11};
  for (int round = 0; round < 2; ++round) {
    check<__nv_bfloat16>(random, {4, 2, 64, 0}, 700);
    check<__half>(random, {4, 1, 80, 100}, 400);
    check<__nv_bfloat16>(random, {20, 1, 64, 300}, 600);  // more than a small tile
    check<__nv_bfloat16>(random, {70, 1, 64, 0}, 100);    // more than a large one
    check<float>(random, {4, 2, 48, 0}, 300);
    check<__nv_bfloat16>(random, {2, 2, 20, 30}, 300);
    check<__half>(random, {3, 1, 128, 0}, 200);
  }
}

}  // namespace pagedinfer::kernels
