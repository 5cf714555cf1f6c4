#include "model/decoder.h"

namespace pagedinfer {
namespace {

// A step's intermediate results. One function takes them from scratch memory for forward() and for
// scratch_bytes(), so that the two cannot differ.
struct Buffers {
  Tensor residual;                  // (tokens, hidden)
  Tensor normed;                    // (tokens, hidden) the input of a block
  Tensor block_out;                 // (tokens, hidden)
  Tensor q, k, v;                   // (tokens, heads * head_dim or kv_heads * head_dim), adjacent
  Tensor attended;                  // (tokens, heads * head_dim)
  Tensor gate, up, gated;           // (tokens, intermediate), the first two adjacent
  std::vector<Tensor> rope_tables;  // (tokens, head_dim) float32
  Tensor last, last_normed;         // (logits, hidden)
  Tensor logits;                    // (logits, vocab) float32
};

Tensor columns(const Tensor& x, int64_t first, int64_t count) {
  return {static_cast<char*>(x.data) + first * size_of(x.dtype), x.dtype, x.rows, count, x.stride};
}

// `take` is called as take(dtype, rows, cols).
template <class Take>
Buffers take_buffers(const ModelSpec& spec, DType activation, int64_t tokens, int64_t logits,
                     const Take& take) {
  const int64_t q_dim = int64_t{spec.heads} * spec.head_dim;
  const int64_t kv_dim = int64_t{spec.kv_heads} * spec.head_dim;
  const auto rows = [&](int64_t cols) { return take(activation, tokens, cols); };
  Buffers b;
  b.residual = rows(spec.hidden);
  b.normed = rows(spec.hidden);
  b.block_out = rows(spec.hidden);
  const Tensor qkv = rows(q_dim + 2 * kv_dim);
  b.q = columns(qkv, 0, q_dim);
  b.k = columns(qkv, q_dim, kv_dim);
  b.v = columns(qkv, q_dim + kv_dim, kv_dim);
  b.attended = rows(q_dim);
  const Tensor gate_up = rows(2 * int64_t{spec.intermediate});
  b.gate = columns(gate_up, 0, spec.intermediate);
  b.up = columns(gate_up, spec.intermediate, spec.intermediate);
  b.gated = rows(spec.intermediate);
  for (size_t i = 0; i < spec.rope_inv_freq.size(); ++i) {
    b.rope_tables.push_back(take(DType::kF32, tokens, spec.head_dim));
  }
  if (logits == 0) return b;
  b.last = take(activation, logits, spec.hidden);
  b.last_normed = take(activation, logits, spec.hidden);
  b.logits = take(DType::kF32, logits, spec.vocab);
  return b;
}

}  // namespace

Tensor forward(const ModelSpec& spec, const Weights& weights, std::vector<KvLayer>& cache,
               const BatchView& batch, StepProtocol& steps, Arithmetic& ops) {
  Buffers b = take_buffers(
      spec, steps.activation_type(), batch.tokens.rows, batch.logit_tokens.rows,
      [&](DType dtype, int64_t rows, int64_t cols) { return steps.scratch(dtype, rows, cols); });
  const auto norm = [&](Tensor x, Tensor weight, Tensor out) {
    ops.rms_norm(x, weight, spec.norm_weight_offset, spec.norm_eps, out);
  };
  // Adds a block's output, normalized by out_norm if the model has one, to the residual and
  // normalizes the sum for the next block.
  const auto add_norm = [&](Tensor out_norm, Tensor next_norm) {
    if (spec.sandwich_norm) {
      ops.norm_add_rms_norm(b.residual, b.block_out, out_norm, next_norm, spec.norm_weight_offset,
                            spec.norm_eps, b.normed);
    } else {
      ops.add_rms_norm(b.residual, b.block_out, next_norm, spec.norm_weight_offset, spec.norm_eps,
                       b.normed);
    }
  };
  const auto matmul = [&](Tensor x, std::initializer_list<Product> products) {
    ops.matmul(x, {products.begin(), products.size()});
  };

  ops.embed(weights.embedding, batch.tokens, weights.embedding_scale, b.residual);
  for (size_t i = 0; i < b.rope_tables.size(); ++i) {
    ops.rope_table(batch.positions, weights.rope_inv_freq[i], 1.0f, b.rope_tables[i]);
  }

  for (size_t l = 0; l < spec.layers.size(); ++l) {
    const LayerSpec& layer = spec.layers[l];
    const LayerWeights& w = weights.layers[l];

    if (l == 0) norm(b.residual, w.attention_norm, b.normed);
    matmul(b.normed, {{w.q, b.q}, {w.k, b.k}, {w.v, b.v}});
    if (spec.qkv_bias) {
      ops.add_bias(b.q, w.q_bias);
      ops.add_bias(b.k, w.k_bias);
      ops.add_bias(b.v, w.v_bias);
    }
    const HeadNorms norms = {w.q_norm, w.k_norm, spec.norm_weight_offset, spec.norm_eps};
    ops.rotate_and_write_kv(b.q, b.k, b.v, norms, b.rope_tables[layer.rope], batch.slot_mapping,
                            cache[l]);
    ops.attention(b.q, cache[l], batch,
                  {.heads = spec.heads,
                   .kv_heads = spec.kv_heads,
                   .head_dim = spec.head_dim,
                   .scale = spec.attention_scale,
                   .window = layer.window},
                  b.attended);
    matmul(b.attended, {{w.attention_out, b.block_out}});
    add_norm(w.attention_out_norm, w.mlp_norm);
    matmul(b.normed, {{w.gate, b.gate}, {w.up, b.up}});
    ops.gate(b.gate, b.up, spec.activation, b.gated);
    matmul(b.gated, {{w.down, b.block_out}});
    if (l + 1 < spec.layers.size()) {
      add_norm(w.mlp_out_norm, weights.layers[l + 1].attention_norm);
    } else {
      if (spec.sandwich_norm) norm(b.block_out, w.mlp_out_norm, b.block_out);
      ops.add(b.residual, b.block_out);
    }
  }

  // Only rows from which a token is drawn go through the vocabulary projection.
  if (batch.logit_tokens.rows == 0) return {nullptr, DType::kF32, 0, spec.vocab, spec.vocab};
  ops.gather_rows(b.residual, batch.logit_tokens, b.last);
  norm(b.last, weights.final_norm, b.last_normed);
  matmul(b.last_normed, {{weights.output, b.logits}});
  return b.logits;
}

int64_t scratch_bytes(const ModelSpec& spec, DType activation, int64_t num_tokens,
                      int64_t num_logits) {
  int64_t total = 0;
  take_buffers(spec, activation, num_tokens, num_logits,
               [&](DType dtype, int64_t rows, int64_t cols) {
                 total += rows * cols * size_of(dtype);
                 return Tensor{};
               });
  return total;
}

}  // namespace pagedinfer
