// Speed of the GPU's kernels and products beside their bounds, which are measured in the same run:
// the bandwidth of a large copy (bytes read and written) and the rate of a large bfloat16 product.
// Bytes and operations of each benchmark are counted by hand. Prints a line of JSON for each.
//
//   pagedinfer_kernel_bench [--small] [part of a name ...]
//
// --small tries all of it with a tiny model.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "expert_bench.h"
#include "gpu_bench.h"
#include "kernels/attention.h"
#include "kernels/sample.h"
#include "product_bench.h"
#include "product_probe.h"
#include "row_bench.h"

namespace pagedinfer {
namespace {

// The last `count` tokens of num_seqs contexts of `context` tokens, with blocks in random order. A
// block as long as the context stands for the contiguous pool.
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
  double pairs = 0, keys = 0;  // pairs of a query and a key that it sees; keys that are read
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
  const kernels::AttentionLimits limits = {
      .max_states = kStates, .blocks_at_once = 3 * bench.multiprocessors() / s.kv_heads};
  kernels::plan_attention(starts, at, group, s.window, limits, plan);
  const int64_t num_cuts = std::max(plan.small.num_cuts, plan.large.num_cuts);
  const std::vector<uint32_t> counters(
      static_cast<size_t>(kernels::attention_counters(num_cuts + 1, s.kv_heads)));
  bench.forget_lists();
  const auto work_of = [&](const kernels::AttentionTiles& tiles) {
    return kernels::AttentionWork{bench.upload(tiles.items), static_cast<int>(tiles.items.size())};
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
  args.counters = const_cast<uint32_t*>(bench.upload(counters));
  check_cuda(
      cudaDeviceGetAttribute(&args.max_shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
      "to look at the GPU");
  const int64_t workspace = kernels::attention_workspace_bytes(kStates, s.kv_heads, s.head_dim);
  const auto measure = [&](const std::string& of) {
    bench.measure(
        of, fmt::format("{} seqs={} context={} queries={}", s.model, num_seqs, context, count),
        {.bytes = 2 * keys * static_cast<double>(layer_bytes) +
                  4.0 * static_cast<double>(rows * q_width),
         .flops = 4 * pairs * static_cast<double>(q_width)},
        [&](int) {
          const int64_t bytes = positions * layer_bytes;
          args.cache = {bench.input(bytes), bench.input(bytes), s.kv_heads, s.head_dim, positions};
          args.q = {bench.input(rows * q_width * 2), q_width};
          args.out = {bench.output(rows * q_width * 2), q_width};
          args.workspace = bench.output(workspace);
          kernels::launch_attention(args, bench.stream());
        });
  };
  args.restarts = false;
  measure(name);
  if (count == 1) return;  // one kernel serves both
  args.restarts = true;
  measure(fmt::format("{}_deterministic", name));
}

enum class Draw { kGreedy, kDrawn, kFiltered, kPenalized };

void sampling(Bench& bench, const Shape& s, int rows, Draw draw) {
  constexpr const char* kNames[] = {"sample_greedy", "sample_drawn", "sample_filtered",
                                    "sample_penalized"};
  constexpr int kGenerated = 256;
  bench.forget_lists();
  kernels::SampleRowArgs row = {};
  row.temperature = draw == Draw::kGreedy ? 0.0f : 0.8f;
  row.top_p = draw == Draw::kFiltered ? 0.95f : 1.0f;
  row.top_k = draw == Draw::kFiltered ? 50 : 0;
  row.repetition_penalty = draw == Draw::kPenalized ? 1.1f : 1.0f;
  std::vector<int32_t> tokens;
  std::vector<kernels::SampleRowArgs> args(static_cast<size_t>(rows), row);
  for (int i = 0; i < rows; ++i) args[static_cast<size_t>(i)].logits_row = i;
  for (int i = 0; i < rows && draw == Draw::kPenalized; ++i) {
    args[static_cast<size_t>(i)].adjusts = 1;
    args[static_cast<size_t>(i)].generated = {static_cast<int32_t>(tokens.size()), kGenerated};
    for (int j = 0; j < kGenerated; ++j) tokens.push_back((i * 911 + j * 7919) % s.vocab);
  }
  const auto* const settings = bench.upload(args);
  const auto* const generated = bench.upload(tokens);
  const int64_t bytes = int64_t{rows} * s.vocab * 4;
  bench.measure(kNames[static_cast<int>(draw)], fmt::format("{} rows={}", s.model, rows),
                {.bytes = static_cast<double>(bytes)}, [&](int) {
                  kernels::SampleArgs sample = {};
                  sample.logits = draw == Draw::kPenalized ? bench.changed<float>(bytes)
                                                           : bench.input<float>(bytes);
                  sample.stride = s.vocab;
                  sample.num_rows = rows;
                  sample.vocabulary = s.vocab;
                  sample.rows = settings;
                  sample.tokens = generated;
                  sample.any_adjusted = draw == Draw::kPenalized;
                  sample.any_drawn = draw != Draw::kGreedy;
                  sample.any_filtered = draw == Draw::kFiltered;
                  sample.out = bench.output<int32_t>(int64_t{rows} * 4);
                  sample.workspace = bench.output(kernels::sample_workspace_bytes(rows, s.vocab));
                  kernels::launch_sample(sample, bench.stream());
                });
}

// The sizes of real models.
void run_all(Bench& bench, ProductProbe& probe) {
  ProductBenches by(bench);
  by.peak(8192);
  for (const Shape& s : kShapes) {
    for (const int seqs : {1, 8, 64, 256}) {
      for (const int context : {512, 768, 2048, 4096, 32768}) {
        attention(bench, s, seqs, context, 1, "attention_decode");
      }
    }
    attention(bench, s, 64, 2048, 1, "attention_decode_contiguous", 2048);
    for (const int queries : {512, 2048, 4096, 8192, 16384}) {
      attention(bench, s, 1, queries, queries, "attention_prefill");
    }
    attention(bench, s, 4, 8192, 512, "attention_chunk");
    if (s.window > 0) {  // the layers without a window
      Shape global = s;
      global.window = 0;
      attention(bench, global, 64, 2048, 1, "attention_decode_global");
      attention(bench, global, 64, 32768, 1, "attention_decode_global");
      attention(bench, global, 1, 8192, 8192, "attention_prefill_global");
    }
    for (const int64_t rows : {64, 2048}) rows_of(bench, s, rows);
    for (const int rows : {1, 64, 256}) {
      for (const Draw draw : {Draw::kGreedy, Draw::kDrawn, Draw::kFiltered, Draw::kPenalized}) {
        sampling(bench, s, rows, draw);
      }
    }
    for (const int64_t rows : {1, 16, 64, 256, 512, 1024, 2048, 8192}) by.products(s, rows);
    for (const int64_t rows : {1, 64, 256}) by.head(s, rows);
    for (const int64_t rows : {1, 8, 16, 32, 64, 128, 256, 512, 2048, 8192}) by.int8(s, rows);
    for (const int64_t rows : {1, 8, 16, 32, 64, 128, 256, 512, 1024, 8192}) probe.probe(s, rows);
    probe.proof(s, 8192);
  }
  for (const ExpertShape& s : kExpertShapes) {
    for (const int rows : {1, 8, 64, 256, 2048}) experts_of(bench, s, rows);
  }
  // Rows that are aligned to 4 bytes only.
  probe.proof({"odd", 120, 4, 2, 32, 330, 261, 0}, 8192);
}

// Every benchmark once, tiny.
void run_small(Bench& bench, ProductProbe& probe) {
  ProductBenches by(bench);
  by.peak(64);
  for (const Shape& s : kSmallShapes) {
    attention(bench, s, 2, 32, 1, "attention_decode");
    attention(bench, s, 1, 32, 32, "attention_prefill");
    rows_of(bench, s, 2);
    for (const Draw draw : {Draw::kGreedy, Draw::kDrawn, Draw::kFiltered, Draw::kPenalized}) {
      sampling(bench, s, 1, draw);
    }
    by.products(s, 2);
    by.head(s, 2);
    for (const int64_t rows : {2, 70}) by.int8(s, rows);
    probe.probe(s, 2);
    probe.proof(s, 70);
  }
  for (const ExpertShape& s : kSmallExpertShapes) experts_of(bench, s, 3);
}

void run(std::vector<std::string> words) {
  const bool is_small = !words.empty() && words.front() == "--small";
  if (is_small) words.erase(words.begin());
  Bench bench(std::move(words), is_small ? int64_t{256} << 20 : int64_t{8} << 30,
              is_small ? 3 : 200);
  ProductProbe probe(bench);
  is_small ? run_small(bench, probe) : run_all(bench, probe);
  if (bench.num_measured() == 0) throw Error("nothing has such a name");
  bench.check_inputs();
  if (!probe.all_equal()) throw Error("with --deterministic a row's bits depend on the other rows");
}

}  // namespace
}  // namespace pagedinfer

int main(int argc, char** argv) {
  try {
    pagedinfer::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pagedinfer_kernel_bench: %s\n", error.what());
    return 1;
  }
}
