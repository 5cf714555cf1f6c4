#include "ops/logit_reader.h"

#include <algorithm>

#include "core/check.h"

namespace pagedinfer {

StepProtocol::Ticket LogitReader::sample(Tensor logits, std::span<const SampleRow> rows) {
  Sampled sampled;
  int latest = -1;  // rows of the same logits follow one another
  for (const SampleRow& row : rows) {
    if (row.logits_row != latest) {
      latest = row.logits_row;
      sampled.hashes.push_back(
          read_({logits.row<float>(latest), static_cast<size_t>(logits.cols)}));
    } else {
      sampled.hashes.push_back(sampled.hashes.back());
    }
  }
  sampled.ticket = PassedOnSteps::sample(logits, rows);
  sampled_.push_back(std::move(sampled));
  if (sampled_.size() > 2) sampled_.pop_front();
  return sampled_.back().ticket;
}

void LogitReader::collect(Ticket ticket, std::span<DrawnToken> out) {
  PassedOnSteps::collect(ticket, out);
  const auto sampled = std::ranges::find(sampled_, ticket, &Sampled::ticket);
  CHECK(sampled != sampled_.end() && sampled->hashes.size() == out.size());
  for (size_t i = 0; i < out.size(); ++i) out[i].logits_hash = sampled->hashes[i];
}

}  // namespace pagedinfer
