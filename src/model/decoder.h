#pragma once

#include <vector>

#include "model/spec.h"
#include "ops/arithmetic.h"
#include "ops/step_protocol.h"

namespace pagedinfer {

// Tensors in device memory. Comments give (rows, cols).
struct LayerWeights {
  Tensor attention_norm;  // (1, hidden)
  Tensor q, k, v;         // (heads * head_dim or kv_heads * head_dim, hidden)
  Tensor attention_out;   // (hidden, heads * head_dim)
  Tensor mlp_norm;        // (1, hidden)
  Tensor gate, up;        // (intermediate, hidden)
  Tensor down;            // (hidden, intermediate)

  // Only if the spec asks for them.
  Tensor q_bias = {}, k_bias = {}, v_bias = {};       // (1, rows of q, k or v)
  Tensor q_norm = {}, k_norm = {};                    // (1, head_dim)
  Tensor attention_out_norm = {}, mlp_out_norm = {};  // (1, hidden)
};

struct Weights {
  Tensor embedding;              // (vocab, hidden)
  Tensor final_norm;             // (1, hidden)
  Tensor output;                 // (vocab, hidden); the embedding if they are tied
  float embedding_scale = 1.0f;  // the spec's, rounded to the type of computation
  std::vector<LayerWeights> layers = {};
  std::vector<Tensor> rope_inv_freq = {};  // (1, head_dim / 2) float32, one per ModelSpec table
};

// Runs the model over one batch and writes the keys and values of every token to `cache`, one entry
// per layer. Returns the logits, (num_logits, vocab) float32, one row for each of
// batch.logit_tokens; they are valid until the next stage(). REQUIRES: `batch` is what `steps`
// staged last; `ops` belongs to the same device.
Tensor forward(const ModelSpec& spec, const Weights& weights, std::vector<KvLayer>& cache,
               const BatchView& batch, StepProtocol& steps, Arithmetic& ops);

// Bytes of scratch memory that forward() takes for a batch of this size.
int64_t scratch_bytes(const ModelSpec& spec, DType activation, int64_t num_tokens,
                      int64_t num_logits);

}  // namespace pagedinfer
