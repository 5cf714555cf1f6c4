#include "ops/cpu/drawn_tokens.h"

#include <algorithm>

#include "core/check.h"

namespace pagedinfer {
namespace {

bool ends_with_placeholder(const SampleRow& row) {
  return !row.generated.empty() && row.generated.back() < 0;
}

}  // namespace

std::span<DrawnToken> DrawnTokens::next(size_t count) {
  std::vector<DrawnToken>& drawn = drawn_[(latest_ + 1) % 2];
  drawn.assign(count, {});
  return drawn;
}

void DrawnTokens::collect(StepProtocol::Ticket ticket, std::span<DrawnToken> out) const {
  CHECK(ticket > 0 && ticket > latest_ - 2 && ticket <= latest_);
  const std::vector<DrawnToken>& drawn = drawn_[ticket % 2];
  CHECK(drawn.size() == out.size());
  std::ranges::copy(drawn, out.begin());
}

TokenId DrawnTokens::resolve(TokenId token) const {
  return token >= 0 ? token : std::max(drawn_[latest_ % 2].at(-1 - token).token, 0);
}

std::span<const SampleRow> DrawnTokens::resolve(std::span<const SampleRow> rows) {
  if (std::ranges::none_of(rows, ends_with_placeholder)) return rows;
  rows_.assign(rows.begin(), rows.end());
  generated_.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!ends_with_placeholder(rows[i])) continue;
    generated_[i].assign(rows[i].generated.begin(), rows[i].generated.end());
    generated_[i].back() = resolve(generated_[i].back());
    rows_[i].generated = generated_[i];
  }
  return rows_;
}

}  // namespace pagedinfer
