// Attention inputs, and the many ways to divide their computation into steps, chunks and blocks.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "tests/support/kv_poison.h"
#include "tests/support/ops_support.h"

namespace pagedinfer {

struct AttentionCase {
  int heads, kv_heads, dim, window;
  DType cache;
  float softcap = 0.0f;
  std::vector<float> sinks = {};  // of the heads, if they have any
};

// One sequence: its queries, keys and values, as the model would compute them.
struct AttentionSequence {
  int tokens;
  std::vector<float> q, k, v;  // (tokens, heads * dim); (tokens, kv_heads * dim) each

  AttentionSequence(Random& random, const AttentionCase& shape, int num_tokens)
      : tokens(num_tokens),
        q(random.normals(static_cast<size_t>(tokens) * shape.heads * shape.dim, 2)),
        k(random.normals(static_cast<size_t>(tokens) * shape.kv_heads * shape.dim)),
        v(random.normals(k.size())) {
    if (shape.cache == DType::kBF16) {  // rounded here, so that the cache changes nothing
      for (auto* x : {&k, &v}) {
        for (float& a : *x) a = from_bits(bits_of(a) & 0xffff0000);
      }
    }
  }
};

// How a run computes the sequences. chunk 0: chunks of random sizes.
struct AttentionRun {
  CpuIsa isa;
  int threads, block_size, chunk;
};

// The steps that compute the sequences: in each step every unfinished sequence advances by a chunk.
// Blocks may be scattered in the cache.
class AttentionSteps {
 public:
  // One step: its batch, and the queries, keys and values of its tokens, a row each.
  struct Step {
    Batch batch = {};
    std::vector<float> q = {}, k = {}, v = {};
    std::vector<int> taking_part = {};  // the sequences of the batch
  };

  // A chunk of 0 means random sizes.
  AttentionSteps(Random& random, const AttentionCase& shape,
                 std::span<const AttentionSequence> sequences, int block_size, int chunk)
      : random_(random),
        shape_(shape),
        sequences_(sequences),
        block_size_(block_size),
        chunk_(chunk),
        done_(sequences.size()),
        left_behind_(sequences.size()) {
    for (const AttentionSequence& s : sequences) {
      max_blocks_ = std::max(max_blocks_, (s.tokens + block_size - 1) / block_size);
    }
    const int num_blocks = static_cast<int>(sequences.size()) * max_blocks_ + 3;
    const int offset = random.below(2) ? 16 * random.below(2) : random.below(20);
    firsts_.resize(num_blocks);
    for (int i = 0; i < num_blocks; ++i) firsts_[i] = offset + i * block_size;
    if (random.below(3)) {
      for (int i = num_blocks - 1; i > 0; --i) std::swap(firsts_[i], firsts_[random.below(i + 1)]);
    }
    num_positions_ = offset + int64_t{num_blocks} * block_size;
  }

  // Number of positions that the cache must have.
  int64_t num_positions() const { return num_positions_; }

  // Makes the next step. False: all sequences are finished.
  bool next(Step& step) {
    step = {.batch = {.query_starts = {0}, .max_blocks = max_blocks_, .block_size = block_size_}};
    Batch& batch = step.batch;
    for (size_t s = 0; s < sequences_.size(); ++s) {
      const AttentionSequence& seq = sequences_[s];
      const int count =
          std::min(seq.tokens - done_[s], chunk_ > 0 ? chunk_ : 1 + random_.below(300));
      if (count == 0) continue;
      step.taking_part.push_back(static_cast<int>(s));
      for (int p = done_[s]; p < done_[s] + count; ++p) {
        batch.tokens.push_back(0);
        batch.positions.push_back(p);
        batch.slot_mapping.push_back(slot(s, p));
      }
      const auto append = [&](std::vector<float>& to, const std::vector<float>& from, int heads) {
        const int64_t width = int64_t{heads} * shape_.dim;
        to.insert(to.end(), from.begin() + done_[s] * width,
                  from.begin() + (done_[s] + count) * width);
      };
      append(step.q, seq.q, shape_.heads);
      append(step.k, seq.k, shape_.kv_heads);
      append(step.v, seq.v, shape_.kv_heads);
      done_[s] += count;
      batch.query_starts.push_back(batch.num_tokens());
      batch.context_lens.push_back(done_[s]);
      const int used = (done_[s] + block_size_ - 1) / block_size_;
      for (int b = 0; b < max_blocks_; ++b) {
        batch.block_table.push_back(b < used ? firsts_[s * max_blocks_ + b] : -1);
      }
    }
    return !step.taking_part.empty();
  }

  // Calls poison(position) for the cache positions that have left the windows of these sequences
  // since the last call.
  template <class Poison>
  void poison_left(std::span<const int> sequences, const Poison& poison) {
    for (const int s : sequences) {
      int& left = left_behind_[s];
      for (; shape_.window > 0 && left <= done_[s] - shape_.window; ++left) poison(slot(s, left));
    }
  }

  AttentionArgs args() const {
    const auto num_sinks = static_cast<int64_t>(shape_.sinks.size());
    const Tensor sinks = {const_cast<float*>(shape_.sinks.data()), DType::kF32, 1, num_sinks,
                          num_sinks};
    return {.heads = shape_.heads,
            .kv_heads = shape_.kv_heads,
            .head_dim = shape_.dim,
            .scale = 1 / std::sqrt(static_cast<float>(shape_.dim)),
            .window = shape_.window,
            .softcap = shape_.softcap,
            .sinks = num_sinks > 0 ? sinks : Tensor{}};
  }

 private:
  int slot(size_t sequence, int position) const {
    return firsts_[sequence * max_blocks_ + position / block_size_] + position % block_size_;
  }

  Random& random_;
  const AttentionCase shape_;
  const std::span<const AttentionSequence> sequences_;
  const int block_size_, chunk_;
  int max_blocks_ = 1;
  int64_t num_positions_ = 0;
  std::vector<int> firsts_, done_, left_behind_;
};

// The output of each sequence. Cache positions that no token was written to, and positions that
// have left the window, are NaN, so that a read of them shows.
inline std::vector<std::vector<float>> run_attention(Random& random, const AttentionCase& shape,
                                                     std::span<const AttentionSequence> sequences,
                                                     const AttentionRun& how) {
  const auto ops = make_cpu_ops({.isa = how.isa, .num_threads = how.threads});
  AttentionSteps steps(random, shape, sequences, how.block_size, how.chunk);
  const KvLayer cache =
      ops->memory().allocate_kv(shape.cache, shape.kv_heads, shape.dim, steps.num_positions());
  for (const Tensor& part : {cache.k, cache.v, cache.k_scale, cache.v_scale}) {
    std::fill_n(static_cast<unsigned char*>(part.data), part.bytes(), 0xff);
  }

  const int q_width = shape.heads * shape.dim, kv_width = shape.kv_heads * shape.dim;
  std::vector<std::vector<float>> outputs(sequences.size());
  for (AttentionSteps::Step step; steps.next(step);) {
    const BatchView staged = ops->steps().stage(step.batch);
    const int64_t n = step.batch.num_tokens();
    const Tensor out = ops->steps().scratch(DType::kF32, n, q_width);
    ops->arithmetic().write_kv(view(step.k, n, kv_width), view(step.v, n, kv_width),
                               staged.slot_mapping, cache);
    ops->arithmetic().attention(view(step.q, n, q_width), cache, staged, steps.args(), out);
    steps.poison_left(step.taking_part, [&](int slot) { poison_position(cache, slot); });
    for (size_t i = 0; i < step.taking_part.size(); ++i) {
      std::vector<float>& to = outputs[step.taking_part[i]];
      to.insert(to.end(), out.row<float>(step.batch.query_starts[i]),
                out.row<float>(step.batch.query_starts[i + 1] - 1) + q_width);
    }
  }
  return outputs;
}

}  // namespace pagedinfer
