// Attention on a GPU: it is close to the CPU's for any heads, window, blocks and chunks, and its
// bits do not depend on chunks, blocks or the rest of the batch.
#include "tests/support/attention_support.h"
#include "tests/support/cuda_support.h"

namespace pagedinfer {
namespace {

// run_attention() on a GPU: all sequences advance together by chunks (0: of random sizes), in
// scattered blocks. Cache positions that no token was written to, or that have left the window, are
// NaN.
std::vector<std::vector<float>> run_on_gpu(Random& random, const AttentionCase& shape,
                                           std::span<const AttentionSequence> sequences,
                                           int block_size, int chunk, DType compute,
                                           bool deterministic) {
  ModelSpec spec;
  spec.heads = shape.heads;
  spec.kv_heads = shape.kv_heads;
  spec.head_dim = shape.dim;
  spec.vocab = 100;
  spec.layers = {{.window = shape.window}};
  const auto gpu = make_gpu(spec, {.compute = compute, .deterministic = deterministic});
  AttentionSteps steps(random, shape, sequences, block_size, chunk);
  const KvLayer cache =
      gpu->memory().allocate_kv(shape.cache, shape.kv_heads, shape.dim, steps.num_positions());
  for (const Tensor& t : {cache.k, cache.v, cache.k_scale, cache.v_scale}) {
    const std::vector<unsigned char> nans(static_cast<size_t>(t.bytes()), 0xff);
    gpu->write(nans.data(), t);
  }
  const int q_width = shape.heads * shape.dim, kv_width = shape.kv_heads * shape.dim;
  std::vector<std::vector<float>> outputs(sequences.size());
  for (AttentionSteps::Step step; steps.next(step);) {
    const BatchView staged = gpu->steps().stage(step.batch);
    const int64_t n = step.batch.num_tokens();
    // As the model has them: columns of one matrix.
    const Tensor qkv = gpu->steps().scratch(compute, n, q_width + 2 * kv_width);
    const auto part = [&](int64_t first, int64_t count, const std::vector<float>& values) {
      const Tensor t = {static_cast<char*>(qkv.data) + first * size_of(qkv.dtype), qkv.dtype, n,
                        count, qkv.stride};
      std::vector<char> bytes(values.size() * 4);
      convert(values.data(), DType::kF32, bytes.data(), t.dtype, std::ssize(values));
      gpu->write(bytes.data(), t);
      return t;
    };
    const Tensor q = part(0, q_width, step.q), k = part(q_width, kv_width, step.k),
                 v = part(q_width + kv_width, kv_width, step.v);
    const Tensor out = gpu->steps().scratch(compute, n, q_width);
    const std::vector<unsigned char> nans(static_cast<size_t>(out.bytes()), 0xff);
    gpu->write(nans.data(), out);
    gpu->arithmetic().write_kv(k, v, staged.slot_mapping, cache);
    gpu->arithmetic().attention(q, cache, staged, steps.args(), out);
    std::vector<char> bytes(static_cast<size_t>(out.bytes()));
    std::vector<float> values(static_cast<size_t>(n * q_width));
    gpu->read(out, bytes.data());
    convert(bytes.data(), out.dtype, values.data(), DType::kF32, n * q_width);
    steps.poison_left(step.taking_part, [&](int slot) { poison_position(*gpu, cache, slot); });
    for (size_t i = 0; i < step.taking_part.size(); ++i) {
      std::vector<float>& to = outputs[step.taking_part[i]];
      to.insert(to.end(), &values[int64_t{step.batch.query_starts[i]} * q_width],
                values.data() + int64_t{step.batch.query_starts[i + 1]} * q_width);
    }
  }
  return outputs;
}

struct Types {
  DType compute, cache;
};
// Float32 over int8 has a test of its own.
constexpr Types kTypes[] = {{DType::kF32, DType::kF32},
                            {DType::kBF16, DType::kBF16},
                            {DType::kF16, DType::kF16},
                            {DType::kBF16, DType::kI8},
                            {DType::kF16, DType::kI8}};

AttentionCase random_shape(Random& random, DType dtype) {
  constexpr int kDims[] = {8, 32, 64, 64, 80, 96, 128, 128, 256, 6};
  const int kv_heads = random.between(1, 3), group = random.between(1, random.below(4) ? 4 : 9);
  return {.heads = kv_heads * group,
          .kv_heads = kv_heads,
          .dim = kDims[random.below(10)],
          .window = random.below(3) ? 0 : random.between(1, 600),
          .cache = dtype};
}

// Their numbers are rounded to `compute`.
std::vector<AttentionSequence> random_sequences(Random& random, const AttentionCase& shape,
                                                DType compute) {
  std::vector<AttentionSequence> sequences;
  for (int i = random.between(1, 5); i > 0; --i) {
    constexpr int kEdges[] = {1, 255, 256, 257, 511, 512, 513, 63, 64, 65};
    const int tokens = random.below(2) ? kEdges[random.below(10)] : random.between(1, 900);
    sequences.emplace_back(random, shape, tokens);
    for (auto* x : {&sequences.back().q, &sequences.back().k, &sequences.back().v}) {
      *x = rounded_to(compute, *x);
    }
  }
  return sequences;
}

}  // namespace

TEST_CASE("on a GPU: attention is close to the CPU's, also over a cache in int8") {
  if (skips_without_gpu()) return;
  for (const auto& [compute, cache] : kTypes) {
    for (int trial = 0; trial < gpu_trials(15); ++trial) {
      Random random{900 + static_cast<uint64_t>(trial)};
      AttentionCase shape = random_shape(random, cache);
      INFO(std::string(name_of(compute)), ", cache in ", std::string(name_of(cache)), ", trial ",
           trial, ": ", shape.heads, " heads, ", shape.kv_heads, " of keys, of ", shape.dim,
           ", window ", shape.window);
      const auto sequences = random_sequences(random, shape, compute);
      const int block_size = random.below(2) ? 16 : random.between(1, 256);
      const auto found = run_on_gpu(random, shape, sequences, block_size, 0, compute, false);
      if (cache != DType::kI8) shape.cache = DType::kF32;
      const auto expected = run_attention(
          random, shape, sequences,
          {.isa = available_isas().back(), .threads = 2, .block_size = 64, .chunk = 1000});
      // The output is rounded, and so are the probabilities.
      for (size_t s = 0; s < sequences.size(); ++s) {
        check_close(compute, found[s], expected[s], 2.5e-3);
      }
    }
  }
}

TEST_CASE("on a GPU: float32 attention over a cache in int8 has the CPU's bits") {
  if (skips_without_gpu()) return;
  for (int trial = 0; trial < gpu_trials(15); ++trial) {
    Random random{970 + static_cast<uint64_t>(trial)};
    const AttentionCase shape = random_shape(random, DType::kI8);
    INFO("trial ", trial, ": ", shape.heads, " heads, ", shape.kv_heads, " of keys, of ", shape.dim,
         ", window ", shape.window);
    std::vector<AttentionSequence> sequences;
    for (int i = random.between(1, 4); i > 0; --i) {
      sequences.emplace_back(random, shape, random.between(1, 700));
    }
    const auto found =
        run_on_gpu(random, shape, sequences, random.between(1, 64), 0, DType::kF32, false);
    const auto expected = run_attention(
        random, shape, sequences,
        {.isa = available_isas().back(), .threads = 2, .block_size = 64, .chunk = 1000});
    for (size_t s = 0; s < sequences.size(); ++s) {
      CHECK(count_differences(found[s], expected[s]) == 0);
    }
  }
}

TEST_CASE("on a GPU: chunks, blocks and the rest of the batch do not change attention's bits") {
  if (skips_without_gpu()) return;
  for (const auto& [compute, cache] : kTypes) {
    for (int trial = 0; trial < gpu_trials(8); ++trial) {
      Random random{950 + static_cast<uint64_t>(trial)};
      const AttentionCase shape = random_shape(random, cache);
      INFO(std::string(name_of(compute)), ", cache in ", std::string(name_of(cache)), ", trial ",
           trial, ": ", shape.heads, " heads, ", shape.kv_heads, " of keys, of ", shape.dim,
           ", window ", shape.window);
      const auto sequences = random_sequences(random, shape, compute);
      const auto together = run_on_gpu(random, shape, sequences, 16, 0, compute, true);
      for (size_t s = 0; s < sequences.size(); ++s) {
        const std::span<const AttentionSequence> one(&sequences[s], 1);
        const int chunk = random.below(2) ? 2000 : random.between(1, 300);
        const auto alone =
            run_on_gpu(random, shape, one, random.between(1, 256), chunk, compute, true);
        CHECK(count_differences(alone[0], together[s]) == 0);
      }
      const auto decoded = run_on_gpu(random, shape, std::span(sequences).first(1),
                                      random.between(1, 40), 1, compute, true);
      CHECK(count_differences(decoded[0], together[0]) == 0);
    }
  }
}

}  // namespace pagedinfer
