// The operations that a model is made of. A model is written once against this.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.h"
#include "ops/activation.h"
#include "ops/batch_view.h"
#include "ops/experts.h"
#include "ops/kv_layer.h"

namespace pagedinfer {

struct AttentionArgs {
  int heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 0.0f;
  int window = 0;        // number of keys that a query sees, its own included; 0 = all
  float softcap = 0.0f;  // a score becomes softcap * tanh(score / softcap); 0: it stays
  // (1, heads) float32: the score of a further key of each head, whose value is 0. Or empty.
  Tensor sinks = {};
};

// The weights of the norms of q and k, for models that normalize each head, or all together.
struct HeadNorms {
  Tensor q = {}, k = {};  // (1, head_dim) or (1, columns of q or k), or empty
  float offset = 0.0f, eps = 0.0f;
  float limit = 0.0f;  // q, k and v are then limited to [-limit, limit]; 0: they are not
};

// What cosines and sines of a rope_table() are multiplied by: `all` times factor
// min(position / positions_per_factor, number of factors - 1), or `all` alone.
struct RopeScale {
  float all = 1.0f;
  Tensor factors = {};  // (1, number of factors) float32, or empty
  int positions_per_factor = 1;
};

// As rope_table() writes them, with the same columns and stride, or both empty.
struct RopeTables {
  Tensor q = {}, k = {};
};

// One of several products with the same input x: out = x * weight^T.
struct Product {
  Tensor weight;  // (out.cols, x.cols)
  Tensor out;     // (x.rows, weight.rows)
};

// activation(x * gate^T + gate_bias) * (x * up^T + up_bias); the outputs of the products are only
// in between.
struct GatedProducts {
  Product gate, up;
  Tensor gate_bias = {}, up_bias = {};  // (1, outputs), or empty
  Activation activation = Activation::kSilu;
  ClampedSwish swish = {};
};

// Several products with the same input.
struct InputProducts {
  Tensor x;
  std::vector<Product> products;
};

// Queues operations on a device, which runs them in the order of the calls. Outputs may not overlap
// inputs, except that add, scale, softcap, rope and rms_norm work in place. Operations that others
// can replace have a default body here: a backend without its own is correct, and may be faster
// with it.
class Arithmetic {
 public:
  virtual ~Arithmetic() = default;

  // out[i] = table[tokens[i]] * scale
  virtual void embed(Tensor table, Tensor tokens, float scale, Tensor out) = 0;
  // RMSNorm (Zhang and Sennrich 2019) of every run of weight.cols elements r of a row:
  // out = r / sqrt(mean(r^2) + eps) * (weight + offset). A weight as wide as x normalizes rows; a
  // weight as wide as a head normalizes heads.
  virtual void rms_norm(Tensor x, Tensor weight, float offset, float eps, Tensor out) = 0;
  virtual void add(Tensor x, Tensor y) = 0;  // x += y
  // x += y, then out = rms_norm(x).
  virtual void add_rms_norm(Tensor x, Tensor y, Tensor weight, float offset, float eps, Tensor out);
  // y = rms_norm(y, y_weight), x += y, then out = rms_norm(x, weight). The contents of y are
  // undefined afterwards.
  virtual void norm_add_rms_norm(Tensor x, Tensor y, Tensor y_weight, Tensor weight, float offset,
                                 float eps, Tensor out);
  // Adds `bias`, one row of the activation type, to every row of x.
  virtual void add_bias(Tensor x, Tensor bias);
  virtual void scale(Tensor x, float factor) = 0;  // x *= factor
  // x = cap * tanh(x / cap), of float32 numbers.
  virtual void softcap(Tensor x, float cap) = 0;
  // Computes all products with the input x.
  virtual void matmul(Tensor x, std::span<const Product> products) = 0;
  // Announces the products of the largest step, so that a device can choose before the first step
  // how to compute them. It may use the shapes, types and alignment of x and the outputs, but
  // neither their contents nor their addresses.
  virtual void prepare(std::span<const InputProducts> products) { static_cast<void>(products); }
  // out = (num_tokens, 2 * inv_freq.cols) float32: cos and then sin of position * inv_freq, both
  // times `scale`.
  virtual void rope_table(Tensor positions, Tensor inv_freq, const RopeScale& scale,
                          Tensor out) = 0;
  // Rotary position embedding (Su et al. 2021): rotates the pairs (i, i + half) of every head,
  // where 2 * half = table.cols; a head's elements from 2 * half on do not change.
  virtual void rope(Tensor x, Tensor table, int head_dim) = 0;
  // out = activation(gate) * up
  virtual void gate(Tensor gate, Tensor up, Activation activation, Tensor out) = 0;
  // out = the gated products of x, as the input of a product with the weights `next`. A device that
  // fuses_gate() changes `out`, which it gets as a shape without memory: to memory of its own,
  // valid until the next call, in a layout that matmul() takes with these weights only. It needs no
  // memory for the outputs of the products either.
  virtual void gated_matmul(Tensor x, const GatedProducts& products, Tensor next, Tensor& out);
  virtual bool fuses_gate() const { return false; }
  // The experts of a block, in three operations. Their default bodies need float32 activations in
  // the host's memory.
  virtual void route(Tensor x, const Router& router, const ExpertChoice& choice);
  virtual void group_by_expert(const ExpertChoice& choice, const ExpertGroups& groups);
  // The starts of groups, once they are complete, if they are in the host's memory; else empty.
  virtual std::span<const int32_t> starts_on_host(const ExpertGroups& groups) const;
  // out = the sum of the chosen experts' gated products of x times their weights, by one chain of
  // fma in ascending order of experts. `groups` are those of `choice`.
  virtual void multiply_experts(Tensor x, const ExpertChoice& choice, const ExpertGroups& groups,
                                std::span<const Expert> experts, Activation activation,
                                const ClampedSwish& swish, Tensor out);
  // Writes row i of k and v to cache position slot_mapping[i]; skips it if that is -1.
  virtual void write_kv(Tensor k, Tensor v, Tensor slot_mapping, KvLayer cache) = 0;
  // Everything between the products of q, k and v and attention(): the norms of the heads, rope()
  // on q and k unless the tables are empty, write_kv(). The contents of k are undefined afterwards.
  virtual void rotate_and_write_kv(Tensor q, Tensor k, Tensor v, const HeadNorms& norms,
                                   const RopeTables& tables, Tensor slot_mapping, KvLayer cache);
  // Causal attention of every token of the batch over the cached positions of its sequence; q and
  // out are (num_tokens, heads * head_dim).
  virtual void attention(Tensor q, KvLayer cache, const BatchView& batch, const AttentionArgs& args,
                         Tensor out) = 0;
  // out[i] = x[indices[i]]
  virtual void gather_rows(Tensor x, Tensor indices, Tensor out) = 0;
};

}  // namespace pagedinfer
