// The calls that make up a step on a device, in this order: expect(), which is optional; stage();
// copy_kv() if the batch has copies; run() around the arithmetic; sample(); and later collect().
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "core/batch.h"
#include "core/request.h"
#include "core/tensor.h"
#include "ops/batch_view.h"
#include "ops/kv_layer.h"

namespace pagedinfer {

// How to draw one token from a row of logits. The settings apply in this order: logit bias, allowed
// tokens, banned tokens, mask, penalties, temperature, top-k, top-p, min-p. The logit of a token
// that is banned or masked, or not allowed, is minus infinity. The spans must stay valid until
// sample() returns. REQUIRES: all ids are in the vocabulary, and logit_bias has each token at most
// once. The last of `generated` may be a placeholder token (core/batch.h). Rows that draw from the
// same row of logits follow one another and differ in `sample` alone.
struct SampleRow {
  const SamplingParams* params = nullptr;
  std::span<const TokenId> prompt = {}, generated = {};  // for the penalties
  std::span<const TokenId> allowed = {};                 // of the vocabulary; empty: all
  std::span<const TokenId> banned = {};                  // cannot be drawn
  // Bit t % 32 of word t / 32 says whether token t can be drawn; empty: each can.
  std::span<const uint32_t> mask = {};
  bool candidates_in_mask = false;  // false: candidates may be any tokens. REQUIRES: a mask
  uint64_t key = 0;                 // with sample and position: the draw's random numbers
  uint32_t sample = 0, position = 0;
  int logits_row = 0;
  // Candidates to report beside the log probability of the drawn token, at most kMaxCandidates; -1:
  // neither.
  int num_log_probs = -1;
};
constexpr int kMaxCandidates = 256;

class StepProtocol {
 public:
  virtual ~StepProtocol() = default;

  // Announces the rows of the step's sample(), so that their settings can travel with the batch.
  // REQUIRES: the rows neither move nor change until sample() has returned.
  virtual void expect(std::span<const SampleRow> rows) { static_cast<void>(rows); }

  // Starts a step. The view, and with it the logits, may have padding rows, which belong to no
  // sequence, after those of the batch; no SampleRow names them.
  virtual BatchView stage(const Batch& batch) = 0;

  // Queues the batch's copies in every layer of the cache. May be called again before run().
  virtual void copy_kv(const BatchView& batch, std::span<const KvLayer> cache) = 0;

  // Memory for results of the step's arithmetic, valid until the next stage().
  virtual Tensor scratch(DType dtype, int64_t rows, int64_t cols) = 0;
  // The type of the arithmetic's results unless an operation says otherwise.
  virtual DType activation_type() const = 0;

  // Queues the arithmetic of a step, between stage() and sample(), and returns its result. It calls
  // queue(), or replays what queue() queued for an earlier batch of the same shape. REQUIRES: apart
  // from the numbers of the batch, `queue` is the same for every step.
  virtual Tensor run(const BatchView& batch, const std::function<Tensor()>& queue) {
    static_cast<void>(batch);
    return queue();
  }
  // Whether run() may replay an earlier step in place of the step that was staged last.
  virtual bool may_replay() const { return false; }

  // Calls task(i) for each i in [0, count), on the threads that the device has on the host, and
  // waits for all. REQUIRES: a task does not throw, and calls nothing of the device.
  virtual void run_on_host(int count, const std::function<void(int)>& task) {
    for (int i = 0; i < count; ++i) task(i);
  }

  // Draws a token for each of `rows` from the logits (float32) without waiting for the device, and
  // may change the logits. Until the next sample() has returned, placeholder tokens stand for what
  // this one draws, so that the next step can be launched before the host collects them.
  using Ticket = int64_t;
  [[nodiscard]] virtual Ticket sample(Tensor logits, std::span<const SampleRow> rows) = 0;
  // Waits for the tokens of one of the latest two sample(), one token for each of its rows. After
  // an exception the caller may try again.
  virtual void collect(Ticket ticket, std::span<DrawnToken> out) = 0;
};

}  // namespace pagedinfer
