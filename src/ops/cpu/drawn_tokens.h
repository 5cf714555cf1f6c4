#pragma once

#include <array>
#include <span>
#include <vector>

#include "ops/step_protocol.h"

namespace pagedinfer {

// The tokens of the latest two sample(), and what stands for them in the step behind.
class DrawnTokens {
 public:
  // Where the next sample() puts its tokens, until add() says that they are there.
  std::span<TokenId> next(size_t count);
  StepProtocol::Ticket add() { return ++latest_; }

  void collect(StepProtocol::Ticket ticket, std::span<TokenId> out) const;

  // The token itself, or the one that the latest sample() drew and that it stands for.
  TokenId resolve(TokenId token) const;
  // The rows with their tokens resolved, until the next call.
  std::span<const SampleRow> resolve(std::span<const SampleRow> rows);

 private:
  StepProtocol::Ticket latest_ = 0;
  std::array<std::vector<TokenId>, 2> tokens_ = {};  // in turn
  std::vector<SampleRow> rows_ = {};
  std::vector<std::vector<TokenId>> generated_ = {};
};

}  // namespace pagedinfer
