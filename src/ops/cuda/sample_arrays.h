#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sample.h"
#include "ops/step_protocol.h"

namespace pagedinfer {

// The settings of sampled rows as arrays for the device. They hold only what the settings of a row
// use: a request without penalties leaves out its tokens. Of the rows that
// draw from one row of logits the first adjusts it for all.
struct SampleArrays {
  std::vector<kernels::SampleRowArgs> rows = {};
  std::vector<float> biases = {};  // of the first tokens, one each
  std::vector<int32_t> tokens = {};
  bool any_adjusted = false, any_drawn = false, any_filtered = false;

  void clear();
  // Replaces the contents by as many of the rows behind the first `num_before` as fit into `bytes`,
  // at least one; returns how many. REQUIRES: bytes >= max_row_bytes().
  size_t fill(std::span<const SampleRow> from, size_t num_before, int64_t vocab, int64_t bytes);

  // The layout of one block of memory: rows, biases, tokens, each at a multiple of 16 bytes.
  struct Layout {
    int64_t biases = 0, tokens = 0, bytes = 0;
  };
  Layout layout() const;
  void pack(char* to) const;
};

// The maximum size of one row, in bytes.
int64_t max_row_bytes(int64_t vocab, int64_t context);

}  // namespace pagedinfer
