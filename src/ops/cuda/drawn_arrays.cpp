#include "ops/cuda/drawn_arrays.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/check.h"
#include "kernels/sample.h"
#include "ops/cuda/device_arena.h"
#include "ops/log_probability.h"

namespace pagedinfer {

DrawnLayout::DrawnLayout(int64_t max_rows) {
  constexpr int64_t kGranule = 16;
  const auto take = [&](int64_t size) {
    return std::exchange(bytes, bytes + align_up(max_rows * size, kGranule));
  };
  take(sizeof(TokenId));
  logits = take(sizeof(float));
  rows = take(sizeof(kernels::RawRow));
  candidates = take(kMaxCandidates * int64_t{sizeof(kernels::RawLogit)});
}

void DrawnArrays::set(std::span<const SampleRow> rows) {
  rows_.assign(rows.size(), {});
  any_report_ = false;
  num_candidates_ = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int asked = rows[i].num_log_probs;
    CHECK(asked <= kMaxCandidates);
    const bool is_first = i == 0 || rows[i - 1].logits_row != rows[i].logits_row;
    if (is_first) {
      rows_[i] = {asked >= 0, i, num_candidates_};
      num_candidates_ += std::max(asked, 0);
    } else {
      rows_[i] = rows_[i - 1];
    }
    any_report_ |= asked >= 0;
  }
}

int64_t DrawnArrays::bytes(const DrawnLayout& layout) const {
  return any_report_ ? layout.candidates + num_candidates_ * int64_t{sizeof(kernels::RawLogit)}
                     : static_cast<int64_t>(rows_.size() * sizeof(TokenId));
}

void DrawnArrays::read(const DrawnLayout& layout, const char* block,
                       std::span<DrawnToken> out) const {
  CHECK(out.size() == rows_.size());
  const auto array = [&]<class T>(const T*& to, int64_t offset) {
    to = reinterpret_cast<const T*>(block + offset);
  };
  const TokenId* tokens = nullptr;
  const float* logits = nullptr;
  const kernels::RawRow* raw_rows = nullptr;
  const kernels::RawLogit* candidates = nullptr;
  array(tokens, 0);
  array(logits, layout.logits);
  array(raw_rows, layout.rows);
  array(candidates, layout.candidates);
  LogProbability log_probability;  // of the row of logits that the latest row draws from
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = {.token = tokens[i]};
    const Row& row = rows_[i];
    if (!row.reports) continue;
    const kernels::RawRow& raw = raw_rows[row.first];
    if (raw.largest == -INFINITY) continue;
    if (row.first == i) log_probability = {raw.largest, raw.sum};
    out[i].log_probability = log_probability.of(logits[i]);
    for (const auto& [id, logit] : std::span(candidates + row.candidates, raw.num_candidates)) {
      out[i].candidates.push_back({id, *log_probability.of(logit)});
    }
  }
}

}  // namespace pagedinfer
