#pragma once

#include <set>
#include <string>
#include <vector>

#include "model/spec.h"
#include "ops/arithmetic.h"
#include "ops/device_memory.h"
#include "ops/step_protocol.h"

namespace pagedinfer {

// Tensors in device memory. Comments give (rows, cols).
struct LayerWeights {
  Tensor q, k, v;        // (heads * head_dim or kv_heads * head_dim, hidden)
  Tensor attention_out;  // (hidden, heads * head_dim)
  // Only if the layer has no experts.
  Tensor gate = {}, up = {};  // (intermediate, hidden)
  Tensor down = {};           // (hidden, intermediate)
  // Else these. The shared expert is the last one.
  Tensor router = {}, router_bias = {}, shared_gate = {};  // as Router
  std::vector<Expert> experts = {};

  // Only if the spec asks for them.
  Tensor attention_norm = {}, mlp_norm = {};          // (1, hidden): of the inputs
  Tensor attention_out_norm = {}, mlp_out_norm = {};  // (1, hidden)
  Tensor q_norm = {}, k_norm = {};                    // (1, head_dim or rows of q or k)
  // (1, rows of the matrix)
  Tensor q_bias = {}, k_bias = {}, v_bias = {}, attention_out_bias = {};
  Tensor gate_bias = {}, up_bias = {}, down_bias = {};
  Tensor sinks = {};  // (1, heads)
};

// The frequencies of a RopeSpec, (1, inv_freq.size()) float32, and its q_factors.
struct RopeWeights {
  Tensor used = {};  // one of these
  Tensor short_runs = {}, long_runs = {};
  Tensor q_factors = {};
};

struct Weights {
  Tensor embedding;              // (vocab, hidden)
  Tensor final_norm;             // (1, hidden)
  Tensor output;                 // (vocab, hidden); the embedding if they are tied
  float embedding_scale = 1.0f;  // the spec's, rounded if the spec says so
  std::vector<LayerWeights> layers = {};
  std::vector<RopeWeights> ropes = {};  // as ModelSpec::ropes
  // Of the checkpoint: some of these are views of them, all others are copies.
  std::set<std::string> viewed_files = {};
};

// Chooses the frequencies for runs whose sequences have at most `max_model_len` tokens.
void use_ropes(const ModelSpec& spec, int max_model_len, Weights& weights);

// Runs the model over one batch and writes the keys and values of every token to `cache`, one entry
// per layer. Returns the logits, (num_logits, vocab) float32, one row for each of
// batch.logit_tokens; they are valid until the next stage(). REQUIRES: `batch` is what `steps`
// staged last; `ops` belongs to the same device.
Tensor forward(const ModelSpec& spec, const Weights& weights, std::vector<KvLayer>& cache,
               const BatchView& batch, StepProtocol& steps, Arithmetic& ops);

// Bytes of scratch memory that forward() takes for a batch of this size. fuses_gate: the device's
// Arithmetic does.
int64_t scratch_bytes(const ModelSpec& spec, DType activation, bool fuses_gate, int64_t num_tokens,
                      int64_t num_logits);

// The products of forward() for a step as large as the bounds. The tensors of activations have the
// shapes and alignments of a step, and no memory.
std::vector<InputProducts> products_of_step(const ModelSpec& spec, const Weights& weights,
                                            DType activation, const StepBounds& bounds);

}  // namespace pagedinfer
