#pragma once

#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "ops/passed_on_steps.h"

namespace pagedinfer {

// Shows the rows of logits that tokens are drawn from. REQUIRES: the device's memory is the host's.
class LogitReader final : public PassedOnSteps {
 public:
  // The reader calls it with each row of logits before it draws a token from the row. The result
  // becomes DrawnToken::logits_hash.
  using Read = std::function<uint64_t(std::span<const float> row)>;

  // REQUIRES: `steps` outlives it.
  LogitReader(StepProtocol& steps, Read read) : PassedOnSteps(steps), read_(std::move(read)) {}
  LogitReader(const LogitReader&) = delete;
  LogitReader& operator=(const LogitReader&) = delete;

  Ticket sample(Tensor logits, std::span<const SampleRow> rows) override;
  void collect(Ticket ticket, std::span<DrawnToken> out) override;

 private:
  struct Sampled {
    Ticket ticket = 0;
    std::vector<uint64_t> hashes = {};  // of each SampleRow
  };

  Read read_;
  std::deque<Sampled> sampled_ = {};  // the latest two
};

}  // namespace pagedinfer
