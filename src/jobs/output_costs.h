#pragma once

#include <cstdint>
#include <functional>

#include "core/request.h"
#include "output/record.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// What completions take of the host once they are drawn: their text, records and statistics. The
// writing of files is left out.
struct OutputCosts {
  double per_completion = 0, per_token = 0;

  double seconds(int64_t completions, int64_t tokens) const {
    return per_completion * static_cast<double>(completions) +
           per_token * static_cast<double>(tokens);
  }
};

// What completions are made of.
struct MeasuredOutput {
  const Tokenizer* tokenizer = nullptr;  // null: they have no text
  int vocab = 1;
  const SamplingParams& sampling;
  const RecordOptions& record;
};

// Makes a few completions, of made-up tokens. `clock` gives seconds.
OutputCosts measure_output(const MeasuredOutput& output, const std::function<double()>& clock);

}  // namespace pagedinfer
