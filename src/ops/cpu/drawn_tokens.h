#pragma once

#include <array>
#include <span>
#include <vector>

#include "ops/step_protocol.h"

namespace pagedinfer {

// The tokens of the latest two sample(), and the values of placeholder tokens.
class DrawnTokens {
 public:
  // Room for the tokens of the next sample(); add() then makes it the latest.
  std::span<DrawnToken> next(size_t count);
  StepProtocol::Ticket add() { return ++latest_; }

  void collect(StepProtocol::Ticket ticket, std::span<DrawnToken> out) const;

  // The token itself or, for a placeholder, the token that the latest sample() drew; 0 if it drew
  // none.
  TokenId resolve(TokenId token) const;
  // The rows with placeholder tokens replaced, valid until the next call.
  std::span<const SampleRow> resolve(std::span<const SampleRow> rows);

 private:
  StepProtocol::Ticket latest_ = 0;
  std::array<std::vector<DrawnToken>, 2> drawn_ = {};  // alternately
  std::vector<SampleRow> rows_ = {};
  std::vector<std::vector<TokenId>> generated_ = {};
};

}  // namespace pagedinfer
