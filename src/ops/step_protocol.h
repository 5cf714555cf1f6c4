// The calls that make up a step on a device, in this order: stage(), run() around the arithmetic,
// sample(), and later collect().
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "core/batch.h"
#include "core/request.h"
#include "core/tensor.h"
#include "ops/batch_view.h"

namespace pagedinfer {

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

class StepProtocol {
 public:
  virtual ~StepProtocol() = default;

  // Starts a step. Behind the batch's rows the view may have some that belong to no sequence:
  // sample() looks at as many rows as it is given settings for.
  virtual BatchView stage(const Batch& batch) = 0;

  // Memory for the results of the step's arithmetic, until the next stage().
  virtual Tensor scratch(DType dtype, int64_t rows, int64_t cols) = 0;
  // The type that the arithmetic wants its results in where it does not say otherwise.
  virtual DType activation_type() const = 0;

  // Queues a step's arithmetic, between stage() and sample(): what `queue` queues, or what it
  // queued for an earlier batch of the same shape, and returns what it returned. REQUIRES: apart
  // from the numbers of the batch, `queue` is the same for every step.
  virtual Tensor run(const BatchView& batch, const std::function<Tensor()>& queue) {
    static_cast<void>(batch);
    return queue();
  }
  // Whether run() may queue the step that was staged last in one piece, made of an earlier one.
  virtual bool may_replay() const { return false; }

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
