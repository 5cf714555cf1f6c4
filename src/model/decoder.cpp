#include "model/decoder.h"

#include "core/numbers.h"

namespace pagedinfer {
namespace {

// A step's intermediate results. One function takes them from scratch memory for forward() and for
// scratch_bytes(), so that the two cannot differ.
struct Buffers {
  Tensor residual;   // (tokens, hidden)
  Tensor normed;     // (tokens, hidden) the input of a block
  Tensor block_out;  // (tokens, hidden)
  Tensor q, k, v;    // (tokens, heads * head_dim or kv_heads * head_dim), adjacent
  Tensor attended;   // (tokens, heads * head_dim)
  // (tokens, intermediate), the first two adjacent; without memory if the device fuses the gate
  Tensor gate, up, gated;
  ExpertChoice choice;
  ExpertGroups groups;
  std::vector<RopeTables> rope_tables;  // (tokens, rotated channels of a head) float32
  Tensor last, last_normed;             // (logits, hidden)
  Tensor logits;                        // (logits, vocab) float32
};

Tensor columns(const Tensor& x, int64_t first, int64_t count) {
  return {static_cast<char*>(x.data) + first * size_of(x.dtype), x.dtype, x.rows, count, x.stride};
}

// `take` is called as take(dtype, rows, cols).
template <class Take>
Buffers take_buffers(const ModelSpec& spec, DType activation, bool fuses_gate, int64_t tokens,
                     int64_t logits, const Take& take) {
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
  if (fuses_gate) {
    b.gate = b.up = b.gated = {nullptr, activation, tokens, spec.intermediate, spec.intermediate};
  } else {
    const Tensor gate_up = rows(2 * int64_t{spec.intermediate});
    b.gate = columns(gate_up, 0, spec.intermediate);
    b.up = columns(gate_up, spec.intermediate, spec.intermediate);
    b.gated = rows(spec.intermediate);
  }
  if (spec.experts.count > 0) {
    const int64_t shared = spec.experts.shared_width > 0 ? 1 : 0;
    const int64_t choices = spec.experts.per_token + shared;
    b.choice = {take(DType::kI32, tokens, choices), take(DType::kF32, tokens, choices)};
    b.groups = {take(DType::kI32, 1, tokens * choices),
                take(DType::kI32, 1, spec.experts.count + shared + 1)};
  }
  for (const RopeSpec& rope : spec.ropes) {
    const auto table = [&] { return take(DType::kF32, tokens, 2 * std::ssize(rope.inv_freq)); };
    const Tensor of_k = table();
    b.rope_tables.push_back({rope.q_factors.empty() ? of_k : table(), of_k});
  }
  if (logits == 0) return b;
  b.last = take(activation, logits, spec.hidden);
  b.last_normed = take(activation, logits, spec.hidden);
  // Rows are aligned for every vocabulary: products into rows that are not may be slow.
  constexpr int64_t kUnit = 8;
  const int64_t stride = ceil_div(spec.vocab, kUnit) * kUnit;
  b.logits = columns(take(DType::kF32, logits, stride), 0, spec.vocab);
  return b;
}

Router router_of(const ExpertsSpec& experts, const LayerWeights& w) {
  return {.weight = w.router,
          .bias = w.router_bias,
          .per_row = experts.per_token,
          .normalizes_chosen = experts.normalizes_chosen,
          .has_shared = experts.shared_width > 0,
          .shared_gate = w.shared_gate};
}

}  // namespace

void use_ropes(const ModelSpec& spec, int max_model_len, Weights& weights) {
  for (size_t i = 0; i < spec.ropes.size(); ++i) {
    RopeWeights& rope = weights.ropes[i];
    rope.used = spec.ropes[i].is_long(max_model_len) ? rope.long_runs : rope.short_runs;
  }
}

Tensor forward(const ModelSpec& spec, const Weights& weights, std::vector<KvLayer>& cache,
               const BatchView& batch, StepProtocol& steps, Arithmetic& ops) {
  Buffers b = take_buffers(
      spec, steps.activation_type(), ops.fuses_gate(), batch.tokens.rows, batch.logit_tokens.rows,
      [&](DType dtype, int64_t rows, int64_t cols) { return steps.scratch(dtype, rows, cols); });
  const auto norm = [&](Tensor x, Tensor weight, Tensor out) {
    ops.rms_norm(x, weight, spec.norm_weight_offset, spec.norm_eps, out);
  };
  const auto add_bias = [&](Tensor x, Tensor bias) {
    if (!bias.empty()) ops.add_bias(x, bias);
  };
  // What a block reads, once `weight` has normalized it.
  const Tensor block_in = spec.norms_inputs ? b.normed : b.residual;
  // Adds a block's output to the residual; `weight` normalizes the sum for the next block.
  const auto add_block = [&](Tensor bias, Tensor out_norm, Tensor weight) {
    add_bias(b.block_out, bias);
    if (spec.norms_outputs && spec.residual_scale == 1.0f && !weight.empty()) {
      return ops.norm_add_rms_norm(b.residual, b.block_out, out_norm, weight,
                                   spec.norm_weight_offset, spec.norm_eps, b.normed);
    }
    if (spec.norms_outputs) norm(b.block_out, out_norm, b.block_out);
    if (spec.residual_scale != 1.0f) ops.scale(b.block_out, spec.residual_scale);
    if (weight.empty()) return ops.add(b.residual, b.block_out);
    ops.add_rms_norm(b.residual, b.block_out, weight, spec.norm_weight_offset, spec.norm_eps,
                     b.normed);
  };
  const auto matmul = [&](Tensor x, std::initializer_list<Product> products) {
    ops.matmul(x, {products.begin(), products.size()});
  };

  ops.embed(weights.embedding, batch.tokens, weights.embedding_scale, b.residual);
  for (size_t i = 0; i < b.rope_tables.size(); ++i) {
    const RopeSpec& rope = spec.ropes[i];
    const RopeWeights& w = weights.ropes[i];
    ops.rope_table(batch.positions, w.used, {.all = rope.scale}, b.rope_tables[i].k);
    if (w.q_factors.empty()) continue;
    ops.rope_table(batch.positions, w.used, {rope.scale, w.q_factors, rope.positions_per_q_factor},
                   b.rope_tables[i].q);
  }

  for (size_t l = 0; l < spec.layers.size(); ++l) {
    const LayerSpec& layer = spec.layers[l];
    const LayerWeights& w = weights.layers[l];

    if (l == 0 && spec.norms_inputs) norm(b.residual, w.attention_norm, b.normed);
    matmul(block_in, {{w.q, b.q}, {w.k, b.k}, {w.v, b.v}});
    add_bias(b.q, w.q_bias);
    add_bias(b.k, w.k_bias);
    add_bias(b.v, w.v_bias);
    const HeadNorms norms = {w.q_norm, w.k_norm, spec.norm_weight_offset, spec.norm_eps,
                             spec.qkv_limit};
    const RopeTables tables = layer.rope == kNoRope ? RopeTables() : b.rope_tables[layer.rope];
    ops.rotate_and_write_kv(b.q, b.k, b.v, norms, tables, batch.slot_mapping, cache[l]);
    ops.attention(b.q, cache[l], batch,
                  {.heads = spec.heads,
                   .kv_heads = spec.kv_heads,
                   .head_dim = spec.head_dim,
                   .scale = spec.attention_scale,
                   .window = layer.window,
                   .softcap = spec.score_cap,
                   .sinks = w.sinks},
                  b.attended);
    matmul(b.attended, {{w.attention_out, b.block_out}});
    add_block(w.attention_out_bias, w.attention_out_norm, w.mlp_norm);
    if (layer.has_experts) {
      ops.route(block_in, router_of(spec.experts, w), b.choice);
      ops.group_by_expert(b.choice, b.groups);
      ops.multiply_experts(block_in, b.choice, b.groups, w.experts, spec.activation,
                           spec.experts.swish, b.block_out);
    } else {
      Tensor gated = b.gated;
      ops.gated_matmul(block_in,
                       {.gate = {w.gate, b.gate},
                        .up = {w.up, b.up},
                        .gate_bias = w.gate_bias,
                        .up_bias = w.up_bias,
                        .activation = spec.activation},
                       w.down, gated);
      matmul(gated, {{w.down, b.block_out}});
    }
    const bool is_last = l + 1 == spec.layers.size();
    add_block(w.down_bias, w.mlp_out_norm,
              is_last ? Tensor() : weights.layers[l + 1].attention_norm);
  }

  // Only rows from which a token is drawn go through the vocabulary projection.
  if (batch.logit_tokens.rows == 0) return {nullptr, DType::kF32, 0, spec.vocab, spec.vocab};
  ops.gather_rows(b.residual, batch.logit_tokens, b.last);
  norm(b.last, weights.final_norm, b.last_normed);
  matmul(b.last_normed, {{weights.output, b.logits}});
  if (spec.logit_scale != 1.0f) ops.scale(b.logits, spec.logit_scale);
  if (spec.logit_cap > 0.0f) ops.softcap(b.logits, spec.logit_cap);
  return b.logits;
}

int64_t scratch_bytes(const ModelSpec& spec, DType activation, bool fuses_gate, int64_t num_tokens,
                      int64_t num_logits) {
  int64_t total = 0;
  take_buffers(spec, activation, fuses_gate, num_tokens, num_logits,
               [&](DType dtype, int64_t rows, int64_t cols) {
                 total += rows * cols * size_of(dtype);
                 return Tensor{};
               });
  return total;
}

}  // namespace pagedinfer
