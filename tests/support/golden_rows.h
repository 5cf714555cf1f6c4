// Computes the logits of a recorded sequence: {"token_ids", "positions", "float32": [row, ...]}.
#pragma once

#include <doctest/doctest.h>
#include <simdjson.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/support/model_goldens.h"
#include "tests/support/model_runner.h"

namespace pagedinfer {

// The logits after the recorded positions, computed in one step or in chunks. `parts` has the sizes
// of the chunks, which repeat.
inline std::vector<std::vector<float>> rows_of(ModelRunner& runner, simdjson::dom::element sequence,
                                               const std::vector<int>& parts = {}) {
  const auto tokens = ints(sequence["token_ids"]), positions = ints(sequence["positions"]);
  const auto length = static_cast<int>(tokens.size());
  runner.start(length);
  std::vector<std::vector<float>> rows;
  for (int begin = 0, i = 0; begin < length; ++i) {
    const int size = parts.empty() ? length : parts[static_cast<size_t>(i) % parts.size()];
    const int end = std::min(length, begin + size);
    std::vector<int32_t> wanted;
    for (const int32_t position : positions) {
      if (position >= begin && position < end) wanted.push_back(position - begin);
    }
    for (auto& row : runner.run({tokens.begin() + begin, tokens.begin() + end}, wanted)) {
      rows.push_back(std::move(row));
    }
    begin = end;
  }
  return rows;
}

// The maximum difference of these logits from "float32", relative to the largest logit of a row.
inline float float32_error(ModelRunner& runner, simdjson::dom::element sequence) {
  const auto rows = rows_of(runner, sequence);
  REQUIRE(rows.size() == sequence["float32"].get_array().size());
  float worst = 0.0f;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto reference = floats(sequence["float32"].at(i));
    worst = std::max(worst, largest_difference(rows[i], reference) / largest(reference));
  }
  return worst;
}

}  // namespace pagedinfer
