#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sample.h"
#include "ops/step_protocol.h"

namespace pagedinfer {

// What some rows of logits are sampled by, as arrays for the device. Only what a row's settings
// use is in it: the tokens of a request without penalties stay where they are.
struct SampleArrays {
  std::vector<kernels::SampleRowArgs> rows = {};
  std::vector<float> biases = {};  // parallel to the tokens they are for, which come first
  std::vector<int32_t> tokens = {};
  bool any_adjusted = false, any_drawn = false, any_filtered = false;

  void clear();
  // Adds all rows from the first on that `bytes` have room for, at least one; how many.
  size_t fill(std::span<const SampleRow> from, int64_t vocab, int64_t bytes);

  // As one block: rows, biases, tokens, each at a multiple of 16 bytes.
  struct Layout {
    int64_t biases = 0, tokens = 0, bytes = 0;
  };
  Layout layout() const;
  void pack(char* to) const;
};

// What fill() needs to be given so that any one row fits.
int64_t max_row_bytes(int64_t vocab, int64_t context);

}  // namespace pagedinfer
