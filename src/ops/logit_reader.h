#pragma once

#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "ops/step_protocol.h"

namespace pagedinfer {

// Shows the rows of logits that tokens are drawn from. REQUIRES: the device's memory is the host's.
class LogitReader final : public StepProtocol {
 public:
  // Is called with each row, as the model gives it, before a token is drawn from it. What it
  // returns becomes DrawnToken::logits_hash.
  using Read = std::function<uint64_t(std::span<const float> row)>;

  // REQUIRES: `steps` outlives it.
  LogitReader(StepProtocol& steps, Read read) : steps_(steps), read_(std::move(read)) {}
  LogitReader(const LogitReader&) = delete;
  LogitReader& operator=(const LogitReader&) = delete;

  BatchView stage(const Batch& batch) override { return steps_.stage(batch); }
  void copy_kv(const BatchView& batch, std::span<const KvLayer> cache) override {
    steps_.copy_kv(batch, cache);
  }
  Tensor scratch(DType dtype, int64_t rows, int64_t cols) override {
    return steps_.scratch(dtype, rows, cols);
  }
  DType activation_type() const override { return steps_.activation_type(); }
  Tensor run(const BatchView& batch, const std::function<Tensor()>& queue) override {
    return steps_.run(batch, queue);
  }
  bool may_replay() const override { return steps_.may_replay(); }
  Ticket sample(Tensor logits, std::span<const SampleRow> rows) override;
  void collect(Ticket ticket, std::span<DrawnToken> out) override;

 private:
  struct Sampled {
    Ticket ticket = 0;
    std::vector<uint64_t> hashes = {};  // of each SampleRow
  };

  StepProtocol& steps_;
  Read read_;
  std::deque<Sampled> sampled_ = {};  // the latest two
};

}  // namespace pagedinfer
