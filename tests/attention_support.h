// Attention problems and the many ways to compute one through Ops.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>

#include "kv_poison.h"
#include "ops_support.h"

namespace pagedinfer {

struct AttentionShape {
  int heads, kv_heads, dim, window;
  DType cache;
};

// One sequence: its queries, keys and values, as the model would compute them.
struct AttentionSequence {
  int tokens;
  std::vector<float> q, k, v;  // (tokens, heads * dim), (tokens, kv_heads * dim) twice

  AttentionSequence(Random& random, const AttentionShape& shape, int num_tokens)
      : tokens(num_tokens),
        q(random.normals(static_cast<size_t>(tokens) * shape.heads * shape.dim, 2)),
        k(random.normals(static_cast<size_t>(tokens) * shape.kv_heads * shape.dim)),
        v(random.normals(k.size())) {
    if (shape.cache == DType::kBF16) {  // what the cache rounds is rounded already
      for (auto* x : {&k, &v}) {
        for (float& a : *x) a = from_bits(bits_of(a) & 0xffff0000);
      }
    }
  }
};

// How a run computes the sequences. A chunk of 0 means random sizes.
struct AttentionRun {
  CpuIsa isa;
  int threads, block_size, chunk;
};

// The outputs of all sequences, one after the other. They advance together, each by a chunk at a
// time; blocks are scattered, and what no token has been written to is NaN, as is what the window
// has left behind.
inline std::vector<std::vector<float>> run_attention(Random& random, const AttentionShape& shape,
                                                     std::span<const AttentionSequence> sequences,
                                                     const AttentionRun& how) {
  const auto ops = make_cpu_ops({.isa = how.isa, .num_threads = how.threads});
  const int num_seqs = static_cast<int>(sequences.size());
  int max_blocks = 1;
  for (const AttentionSequence& s : sequences) {
    max_blocks = std::max(max_blocks, (s.tokens + how.block_size - 1) / how.block_size);
  }
  const int num_blocks = num_seqs * max_blocks + 3, offset = random.below(20);
  std::vector<int> firsts(num_blocks);
  for (int i = 0; i < num_blocks; ++i) firsts[i] = offset + i * how.block_size;
  if (random.below(3)) {
    for (int i = num_blocks - 1; i > 0; --i) std::swap(firsts[i], firsts[random.below(i + 1)]);
  }
  const KvLayer cache = ops->allocate_kv(shape.cache, shape.kv_heads, shape.dim,
                                         offset + int64_t{num_blocks} * how.block_size);
  std::fill_n(static_cast<unsigned char*>(cache.k.data), cache.k.bytes(), 0xff);
  std::fill_n(static_cast<unsigned char*>(cache.v.data), cache.v.bytes(), 0xff);

  const int q_width = shape.heads * shape.dim, kv_width = shape.kv_heads * shape.dim;
  std::vector<std::vector<float>> outputs(num_seqs);
  std::vector<int> done(num_seqs), left_behind(num_seqs);
  while (true) {
    Batch batch = {.query_starts = {0}, .max_blocks = max_blocks, .block_size = how.block_size};
    std::vector<float> q, k, v;
    std::vector<int> taking_part;
    for (int s = 0; s < num_seqs; ++s) {
      const AttentionSequence& seq = sequences[s];
      const int count =
          std::min(seq.tokens - done[s], how.chunk > 0 ? how.chunk : 1 + random.below(300));
      if (count == 0) continue;
      taking_part.push_back(s);
      const int* blocks = &firsts[s * max_blocks];
      for (int p = done[s]; p < done[s] + count; ++p) {
        batch.tokens.push_back(0);
        batch.positions.push_back(p);
        batch.slot_mapping.push_back(blocks[p / how.block_size] + p % how.block_size);
      }
      done[s] += count;
      const auto append = [&](std::vector<float>& to, const std::vector<float>& from, int width) {
        to.insert(to.end(), from.begin() + int64_t{done[s] - count} * width,
                  from.begin() + int64_t{done[s]} * width);
      };
      append(q, seq.q, q_width), append(k, seq.k, kv_width), append(v, seq.v, kv_width);
      batch.query_starts.push_back(batch.num_tokens());
      batch.context_lens.push_back(done[s]);
      const int used = (done[s] + how.block_size - 1) / how.block_size;
      for (int b = 0; b < max_blocks; ++b) batch.block_table.push_back(b < used ? blocks[b] : -1);
    }
    if (taking_part.empty()) return outputs;

    const BatchView staged = ops->stage(batch);
    const int64_t n = batch.num_tokens();
    const Tensor out = ops->scratch(DType::kF32, n, q_width);
    ops->write_kv(view(k, n, kv_width), view(v, n, kv_width), staged.slot_mapping, cache);
    ops->attention(view(q, n, q_width), cache, staged,
                   {.heads = shape.heads,
                    .kv_heads = shape.kv_heads,
                    .head_dim = shape.dim,
                    .scale = 1 / std::sqrt(static_cast<float>(shape.dim)),
                    .window = shape.window},
                   out);
    for (const int s : taking_part) {
      for (int p = left_behind[s]; shape.window > 0 && p <= done[s] - shape.window; ++p) {
        poison_position(cache, firsts[s * max_blocks + p / how.block_size] + p % how.block_size);
        left_behind[s] = p + 1;
      }
    }
    for (size_t i = 0; i < taking_part.size(); ++i) {
      std::vector<float>& to = outputs[taking_part[i]];
      to.insert(to.end(), out.row<float>(batch.query_starts[i]),
                out.row<float>(batch.query_starts[i + 1] - 1) + q_width);
    }
  }
}

}  // namespace pagedinfer
