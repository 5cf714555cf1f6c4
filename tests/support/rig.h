// A tiny model on a backend. Cache positions without a token are NaN, so that a read of one shows
// in the logits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "model/decoder.h"
#include "model/model.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cuda/cuda_ops.h"
#include "tests/support/harness.h"
#include "tests/support/tiny_model.h"
#include "tests/support/watched_ops.h"
#include "tests/support/workload.h"

namespace pagedinfer {

// Of which token a row of logits is.
struct LogitPlace {
  uint64_t key = 0;  // the request's random key
  uint32_t sample = 0, position = 0;
  auto operator<=>(const LogitPlace&) const = default;
};
// What sample() was given: a hash of the bits of each row of logits.
using LogitRows = std::map<LogitPlace, uint64_t>;

class Rig {
 public:
  // REQUIRES: the model outlives it.
  // The type of the cache is that of computation unless it is given.
  Rig(const OpenedModel& model, const CpuOptions& options, std::optional<DType> cache_type = {},
      Quantization quantize = Quantization::kNone);
  // On the GPU. REQUIRES: cuda_problem() is "".
  Rig(const OpenedModel& model, const CudaOptions& options);

  // Empties the cache and forgets what came before; no run uses more positions than this has.
  void start();
  static constexpr int64_t kNumPositions = 4096;

  // A Device for drive(): computes a step and draws.
  std::vector<DrawnToken> compute(const StepPlan& plan, PlanSequences sequences,
                                  const Batch& batch);

  // A sample of a request without a scheduler, a pool or other requests: the whole prompt,
  // then a token at a time, until `is_last` says so of what has been generated. `drawn` gets what
  // each draw reports.
  using Tokens = std::vector<TokenId>;
  Tokens alone(const Request& request, int max_model_len,
               const std::function<bool(const Tokens& generated)>& is_last,
               const std::function<Tokens(const Tokens& generated)>& banned = {}, int sample = 0,
               std::vector<DrawnToken>* drawn = nullptr);

  // A beam search in the same way: each beam's prompt and tokens are computed anew in each step.
  // Completions end with `stop`.
  std::vector<FinishedBeam> search_alone(const Request& request, int max_model_len, TokenId stop);

  // The log probabilities of all tokens behind `known`, without a scheduler, a pool or other
  // requests. REQUIRES: the vocabulary has at most kMaxCandidates tokens.
  std::vector<TokenCandidate> behind(const Tokens& known);

  // Since start().
  const LogitRows& logit_rows() const { return logit_rows_; }
  int num_bad_rows() const { return num_bad_rows_; }  // rows with a logit that is not finite

  // Of a GPU.
  GraphCounts graph_counts() const {
    return gpu_ == nullptr ? GraphCounts() : gpu_->graph_counts();
  }

  const OpenedModel& model;

 private:
  Rig(const OpenedModel& model, std::unique_ptr<Ops> ops, CudaOps* gpu, DType compute,
      DType cache_type, Quantization quantize);

  std::unique_ptr<Ops> backend_;
  CudaOps* gpu_;  // the same, or null

 public:
  WatchedOps ops;
  Weights weights;
  std::vector<KvLayer> cache = {};

 private:
  Tensor queue_step(const BatchView& view);
  Tensor compute_alone(const Tokens& tokens, int end);
  void poison(int64_t slot);
  void poison_unwritten(const Batch& batch);
  void note(Tensor logits, std::span<const SampleRow> rows);

  std::vector<bool> is_written_;  // by slot
  Batch staged_ = {};
  LogitRows logit_rows_ = {};
  int num_bad_rows_ = 0;
};

// Small models of awkward sizes, with at least kTinyVocab tokens each. The last is large enough for
// its products to run on several threads.
std::vector<TinyModelOptions> tiny_shapes();
// Of models with experts.
std::vector<TinyModelOptions> tiny_expert_shapes();
constexpr TokenId kTinyVocab = 37, kTinyStop = 7;

// Gives most requests a temperature, filters or penalties, and all a random key.
void vary_sampling(std::vector<Arrival>& arrivals, WorkloadRandom& random);

// Makes one prompt longer than a segment of attention.
void lengthen_one(Workload& work, WorkloadRandom& random);

}  // namespace pagedinfer
