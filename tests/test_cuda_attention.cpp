// Attention on a GPU: near the CPU's for any heads, window, blocks and chunks, and its own bits
// whatever the chunks, the blocks and the company.
#include "attention_support.h"
#include "cuda_support.h"

namespace pagedinfer {
namespace {

// As run_attention(), on a GPU: all sequences advance together by chunks (0: of random sizes), in
// scattered blocks, with NaN where no token was written and behind the window.
std::vector<std::vector<float>> run_on_gpu(Random& random, const AttentionShape& shape,
                                           std::span<const AttentionSequence> sequences,
                                           int block_size, int chunk, bool deterministic) {
  ModelSpec spec;
  spec.heads = shape.heads;
  spec.kv_heads = shape.kv_heads;
  spec.head_dim = shape.dim;
  spec.vocab = 100;
  const auto gpu = make_gpu(spec, {.compute = shape.cache, .deterministic = deterministic});
  const int num_seqs = static_cast<int>(sequences.size());
  int max_blocks = 1;
  for (const AttentionSequence& s : sequences)
    max_blocks = std::max(max_blocks, (s.tokens + block_size - 1) / block_size);
  const int num_blocks = num_seqs * max_blocks + 3;
  std::vector<int> firsts(static_cast<size_t>(num_blocks));
  for (int i = 0; i < num_blocks; ++i) firsts[i] = i * block_size;
  for (int i = num_blocks - 1; i > 0; --i) std::swap(firsts[i], firsts[random.below(i + 1)]);
  const KvLayer cache =
      gpu->allocate_kv(shape.cache, shape.kv_heads, shape.dim, int64_t{num_blocks} * block_size);
  for (const Tensor& t : {cache.k, cache.v}) {
    const std::vector<unsigned char> nans(static_cast<size_t>(t.bytes()), 0xff);
    gpu->write(nans.data(), t);
  }
  const int q_width = shape.heads * shape.dim, kv_width = shape.kv_heads * shape.dim;
  std::vector<std::vector<float>> outputs(sequences.size());
  std::vector<int> done(sequences.size()), left_behind(sequences.size());
  while (true) {
    Batch batch = {.query_starts = {0}, .max_blocks = max_blocks, .block_size = block_size};
    std::vector<float> q, k, v;
    std::vector<int> taking_part;
    for (int s = 0; s < num_seqs; ++s) {
      const AttentionSequence& seq = sequences[s];
      const int count = std::min(seq.tokens - done[s], chunk > 0 ? chunk : 1 + random.below(300));
      if (count == 0) continue;
      taking_part.push_back(s);
      const int* blocks = &firsts[s * max_blocks];
      for (int p = done[s]; p < done[s] + count; ++p) {
        batch.tokens.push_back(0);
        batch.positions.push_back(p);
        batch.slot_mapping.push_back(blocks[p / block_size] + p % block_size);
      }
      const auto append = [&](std::vector<float>& to, const std::vector<float>& from, int width) {
        to.insert(to.end(), from.begin() + int64_t{done[s]} * width,
                  from.begin() + int64_t{done[s] + count} * width);
      };
      append(q, seq.q, q_width), append(k, seq.k, kv_width), append(v, seq.v, kv_width);
      done[s] += count;
      batch.query_starts.push_back(batch.num_tokens());
      batch.context_lens.push_back(done[s]);
      const int used = (done[s] + block_size - 1) / block_size;
      for (int b = 0; b < max_blocks; ++b) batch.block_table.push_back(b < used ? blocks[b] : -1);
    }
    if (taking_part.empty()) return outputs;

    const BatchView staged = gpu->stage(batch);
    const int64_t n = batch.num_tokens();
    // As the model has them: columns of one matrix.
    const Tensor qkv = gpu->scratch(shape.cache, n, q_width + 2 * kv_width);
    const auto part = [&](int64_t first, int64_t count, const std::vector<float>& values) {
      const Tensor t = {static_cast<char*>(qkv.data) + first * size_of(qkv.dtype), qkv.dtype, n,
                        count, qkv.stride};
      std::vector<char> bytes(values.size() * 4);
      convert(values.data(), DType::kF32, bytes.data(), t.dtype, std::ssize(values));
      gpu->write(bytes.data(), t);
      return t;
    };
    const Tensor q_part = part(0, q_width, q), k_part = part(q_width, kv_width, k),
                 v_part = part(q_width + kv_width, kv_width, v);
    const Tensor out = gpu->scratch(shape.cache, n, q_width);
    const std::vector<unsigned char> nans(static_cast<size_t>(out.bytes()), 0xff);
    gpu->write(nans.data(), out);
    gpu->write_kv(k_part, v_part, staged.slot_mapping, cache);
    gpu->attention(q_part, cache, staged,
                   {.heads = shape.heads,
                    .kv_heads = shape.kv_heads,
                    .head_dim = shape.dim,
                    .scale = 1 / std::sqrt(static_cast<float>(shape.dim)),
                    .window = shape.window},
                   out);
    std::vector<char> bytes(static_cast<size_t>(out.bytes()));
    std::vector<float> values(static_cast<size_t>(n * q_width));
    gpu->read(out, bytes.data());
    convert(bytes.data(), out.dtype, values.data(), DType::kF32, n * q_width);
    for (size_t i = 0; i < taking_part.size(); ++i) {
      const int s = taking_part[i];
      outputs[s].insert(outputs[s].end(), &values[int64_t{batch.query_starts[i]} * q_width],
                        values.data() + int64_t{batch.query_starts[i + 1]} * q_width);
      for (int p = left_behind[s]; shape.window > 0 && p <= done[s] - shape.window; ++p) {
        poison_position(*gpu, cache, firsts[s * max_blocks + p / block_size] + p % block_size);
        left_behind[s] = p + 1;
      }
    }
  }
}

AttentionShape random_shape(Random& random, DType dtype) {
  constexpr int kDims[] = {8, 32, 64, 64, 80, 96, 128, 128, 256, 6};
  const int kv_heads = random.between(1, 3), group = random.between(1, random.below(4) ? 4 : 9);
  return {.heads = kv_heads * group,
          .kv_heads = kv_heads,
          .dim = kDims[random.below(10)],
          .window = random.below(3) ? 0 : random.between(1, 600),
          .cache = dtype};
}

std::vector<AttentionSequence> random_sequences(Random& random, const AttentionShape& shape) {
  std::vector<AttentionSequence> sequences;
  for (int i = random.between(1, 5); i > 0; --i) {
    constexpr int kEdges[] = {1, 255, 256, 257, 511, 512, 513, 63, 64, 65};
    const int tokens = random.below(2) ? kEdges[random.below(10)] : random.between(1, 900);
    sequences.emplace_back(random, shape, tokens);
    for (auto* x : {&sequences.back().q, &sequences.back().k, &sequences.back().v})
      *x = rounded_to(shape.cache, *x);
  }
  return sequences;
}

}  // namespace

TEST_CASE("on a GPU: attention is near the CPU's") {
  if (skips_without_gpu()) return;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (int trial = 0; trial < gpu_trials(15); ++trial) {
      Random random{900 + static_cast<uint64_t>(trial)};
      AttentionShape shape = random_shape(random, dtype);
      INFO(name_of(dtype), ", trial ", trial, ": ", shape.heads, " heads, ", shape.kv_heads,
           " of keys, of ", shape.dim, ", window ", shape.window);
      const auto sequences = random_sequences(random, shape);
      const int block_size = random.below(2) ? 16 : random.between(1, 256);
      const auto found = run_on_gpu(random, shape, sequences, block_size, 0, false);
      shape.cache = DType::kF32;
      const auto expected = run_attention(
          random, shape, sequences,
          {.isa = available_isas().back(), .threads = 2, .block_size = 64, .chunk = 1000});
      for (size_t s = 0; s < sequences.size(); ++s) check_close(dtype, found[s], expected[s]);
    }
  }
}

TEST_CASE("on a GPU: chunks, blocks and company do not change attention's bits") {
  if (skips_without_gpu()) return;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (int trial = 0; trial < gpu_trials(8); ++trial) {
      Random random{950 + static_cast<uint64_t>(trial)};
      const AttentionShape shape = random_shape(random, dtype);
      INFO(name_of(dtype), ", trial ", trial, ": ", shape.heads, " heads, ", shape.kv_heads,
           " of keys, of ", shape.dim, ", window ", shape.window);
      const auto sequences = random_sequences(random, shape);
      const auto together = run_on_gpu(random, shape, sequences, 16, 0, true);
      for (size_t s = 0; s < sequences.size(); ++s) {
        const std::span<const AttentionSequence> one(&sequences[s], 1);
        const int chunk = random.below(2) ? 2000 : random.between(1, 300);
        const auto alone = run_on_gpu(random, shape, one, random.between(1, 256), chunk, true);
        CHECK(count_differences(alone[0], together[s]) == 0);
      }
      const auto decoded =
          run_on_gpu(random, shape, std::span(sequences).first(1), random.between(1, 40), 1, true);
      CHECK(count_differences(decoded[0], together[0]) == 0);
    }
  }
}

}  // namespace pagedinfer
