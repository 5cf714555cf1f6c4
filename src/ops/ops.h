// Everything the engine asks of a device. A model is written once against this; a backend is
// one class that implements it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/batch.h"
#include "core/request.h"
#include "core/tensor.h"
#include "ops/device_timer.h"

namespace pagedinfer {

// A Batch copied to where the backend can read it; int32 columns. No token stands for another.
struct BatchView {
  Tensor tokens, positions, slot_mapping, query_starts, context_lens, block_table, logit_tokens;
  int max_blocks = 0;
  int block_size = 0;
};

// One layer's cache. Its layout is the backend's business: made by allocate_kv(), read by
// write_kv() and attention() of the same Ops.
struct KvLayer {
  Tensor k, v;
  int kv_heads = 0, head_dim = 0;
  int64_t num_positions = 0;
};

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

// The most that any step of a run asks for.
struct StepBounds {
  int64_t tokens = 0, sequences = 0;
  int64_t widest_input = 0;  // columns of what a product reads
  int64_t vocab = 0;
  int64_t context = 0;  // positions that a sequence sees
  int block_size = 1;
  int heads = 0, kv_heads = 0, head_dim = 0;
};

// One of the products that share an input: out = x weight^T.
struct Product {
  Tensor weight;  // (out.cols, x.cols)
  Tensor out;     // (x.rows, weight.rows)
};

// How to draw from one row of logits, in this order: logit bias, allowed tokens, banned tokens,
// penalties, temperature, top-k, top-p, min-p. The logit of a token that is not allowed, or banned,
// is minus infinity. The spans are the caller's until sample() returns. The last of `generated` may
// be one that stands for a drawn token.
struct SampleRow {
  const SamplingParams* params = nullptr;
  std::span<const TokenId> prompt = {}, generated = {};  // for the penalties
  std::span<const TokenId> allowed = {};                 // of the vocabulary; empty: all
  std::span<const TokenId> banned = {};                  // cannot be drawn
  uint64_t key = 0;  // with sample and position: the draw's random numbers
  uint32_t sample = 0, position = 0;
};

class Ops {
 public:
  virtual ~Ops() = default;

  // "cpu (avx512, 2 threads)": for the statistics.
  virtual std::string description() const = 0;

  // Memory. Tensors live until the Ops is destroyed, except scratch().
  virtual Tensor allocate(DType dtype, int64_t rows, int64_t cols) = 0;  // zeros
  // A matrix of the file as matmul(), embed() and rms_norm() can use it, converted to `dtype`
  // if it has another one. May be a view: `host` must outlive the Ops.
  virtual Tensor upload(Tensor host, DType dtype) = 0;
  // The type to upload a product's matrix in when products are computed in `compute`.
  virtual DType matrix_type(DType of_file, DType compute) const {
    return compute == DType::kF32 ? of_file : compute;
  }
  // Memory that upload() takes up, with what it keeps of `host`. For the memory plan.
  virtual int64_t uploaded_bytes(Tensor host, DType dtype) const;
  virtual KvLayer allocate_kv(DType dtype, int kv_heads, int head_dim, int64_t num_positions) = 0;
  virtual int64_t kv_bytes_per_position(DType dtype, int kv_heads, int head_dim) const = 0;
  // What a step takes beside its scratch(). For the memory plan.
  virtual int64_t workspace_bytes(const StepBounds&) const { return 0; }
  // Takes what a run needs, all at once: `permanent` bytes for the tensors that live as long as
  // the Ops, `scratch` for a step's scratch() and workspace_bytes(bounds). For backends that do
  // not take memory as they go; called once, before anything else takes memory.
  virtual void reserve(const StepBounds& bounds, int64_t permanent, int64_t scratch) {
    static_cast<void>(bounds), static_cast<void>(permanent), static_cast<void>(scratch);
  }
  virtual Tensor scratch(DType dtype, int64_t rows, int64_t cols) = 0;  // until next stage()
  // Starts a step. Behind the batch's rows the view may have some that belong to no sequence:
  // sample() looks at as many rows as it is given settings for.
  virtual BatchView stage(const Batch& batch) = 0;
  // Queues a step's arithmetic, between stage() and sample(): what `queue` queues, or what it
  // queued for an earlier batch of the same shape, and returns what it returned. REQUIRES: apart
  // from the numbers of the batch, `queue` is the same for every step.
  virtual Tensor run(const BatchView& batch, const std::function<Tensor()>& queue) {
    static_cast<void>(batch);
    return queue();
  }

  // Marks among this Ops' work. `clock` gives seconds, for a device without a clock of its own.
  // The Ops outlives the timer.
  virtual std::unique_ptr<DeviceTimer> make_timer(std::function<double()> clock);
  // to = from, as fast as the device can. REQUIRES: of one shape and type, without room between
  // rows.
  virtual void copy(Tensor from, Tensor to) = 0;

  // Whether run() may queue the step that was staged last in one piece, made of an earlier one.
  virtual bool may_replay() const { return false; }

  // The type of activations between the calls below.
  virtual DType activation_type() const = 0;

  // Arithmetic. Only add, rope and rms_norm may work in place.
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
  // Draws a token for each row of logits (float32) without waiting for the device. From then on,
  // until the next sample() has returned, the token that is -1 - r stands for what was drawn from
  // row r (for 0 where nothing could be), so that a step can follow whose tokens the host has
  // not seen.
  using Ticket = int64_t;
  [[nodiscard]] virtual Ticket sample(Tensor logits, std::span<const SampleRow> rows) = 0;
  // Waits for what one of the latest two sample() drew: a token for each of its rows, or -1 where
  // no logit was finite. Where it throws it may be asked again.
  virtual void collect(Ticket ticket, std::span<TokenId> out) = 0;
};

}  // namespace pagedinfer
