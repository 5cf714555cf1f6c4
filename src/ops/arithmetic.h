// The operations that a model is made of. A model is written once against this.
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"
#include "ops/batch_view.h"
#include "ops/kv_layer.h"

namespace pagedinfer {

struct AttentionArgs {
  int heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 0.0f;
  int window = 0;  // keys a query sees, its own included; 0 = all
};

enum class Activation : uint8_t { kSilu, kGeluTanh };

// The norms of each head's q and k, where a model has them.
struct HeadNorms {
  Tensor q = {}, k = {};  // (1, head_dim), or empty
  float offset = 0.0f, eps = 0.0f;
};

// One of the products that share an input: out = x weight^T.
struct Product {
  Tensor weight;  // (out.cols, x.cols)
  Tensor out;     // (x.rows, weight.rows)
};

// Queues work on a device in the order of the calls. Only add, rope and rms_norm may work in place.
// An operation that others can be put together from has a body here, which does that: a backend
// that does not know it is right, and may be faster with a body of its own.
class Arithmetic {
 public:
  virtual ~Arithmetic() = default;

  // out[i] = table[tokens[i]] * scale
  virtual void embed(Tensor table, Tensor tokens, float scale, Tensor out) = 0;
  // Normalizes every run of weight.cols elements, then scales by weight + offset. A weight as
  // wide as x gives a layer norm; one head wide, a per-head norm (RMSNorm: Zhang and Sennrich
  // 2019).
  virtual void rms_norm(Tensor x, Tensor weight, float offset, float eps, Tensor out) = 0;
  virtual void add(Tensor x, Tensor y) = 0;  // x += y
  // x += y, then out = the norm of x.
  virtual void add_rms_norm(Tensor x, Tensor y, Tensor weight, float offset, float eps, Tensor out);
  // Adds the one row of `bias`, of the activation type, to every row of x.
  virtual void add_bias(Tensor x, Tensor bias);
  virtual void matmul(Tensor x, std::span<const Product> products) = 0;
  // out = (num_tokens, 2 * inv_freq.cols) float32: cos and then sin of position * inv_freq.
  virtual void rope_table(Tensor positions, Tensor inv_freq, Tensor out) = 0;
  // Rotates the pairs (i, i + half) of every head, of 2 * half = table.cols elements (rotary
  // position embedding: Su et al. 2021).
  virtual void rope(Tensor x, Tensor table) = 0;
  // out = activation(gate) * up
  virtual void gate(Tensor gate, Tensor up, Activation activation, Tensor out) = 0;
  virtual void write_kv(Tensor k, Tensor v, Tensor slot_mapping, KvLayer cache) = 0;
  // What happens to q, k and v between their product and attention(): the norms of the heads,
  // rope(), write_kv(). What k holds afterwards is undefined.
  virtual void rotate_and_write_kv(Tensor q, Tensor k, Tensor v, const HeadNorms& norms,
                                   Tensor rope_table, Tensor slot_mapping, KvLayer cache);
  // Causal by position, over the block table, a row of heads * head_dim per token.
  virtual void attention(Tensor q, KvLayer cache, const BatchView& batch, const AttentionArgs& args,
                         Tensor out) = 0;
  virtual void gather_rows(Tensor x, Tensor indices, Tensor out) = 0;
};

}  // namespace pagedinfer
