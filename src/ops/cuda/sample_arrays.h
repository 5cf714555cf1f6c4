#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sample.h"
#include "ops/step_protocol.h"

namespace pagedinfer {

// The settings of sampled rows as arrays for the device. They leave out everything that a row does
// not need: without penalties, the tokens of a request. If several rows draw from one row of
// logits, the first of them adjusts the logits for all and reports the candidates.
struct SampleArrays {
  std::vector<kernels::SampleRowArgs> rows = {};
  std::vector<float> biases = {};  // of the first tokens, one each
  std::vector<int32_t> tokens = {};
  std::vector<std::span<const uint32_t>> masks = {};  // of the rows that have one
  bool any_adjusted = false, any_drawn = false, any_filtered = false, any_report = false;
  bool any_candidates_in_mask = false;
  int32_t num_candidates = 0;  // that all rows ask for

  void clear();
  // Replaces the contents by as many rows after the first `num_before` as fit into `bytes`, and
  // returns their number. Rows that draw from one row of logits stay together. REQUIRES: bytes >=
  // max_sample_bytes() for the number of rows.
  size_t fill(std::span<const SampleRow> from, size_t num_before, int64_t vocab, int64_t bytes);

  // The layout of one block of memory: rows, biases, tokens, each at a multiple of 16 bytes. pack()
  // writes these `bytes`. Room for SampleReport::listed follows them if there is a report.
  struct Layout {
    int64_t biases = 0, tokens = 0, bytes = 0;
    int64_t bytes_with_listed = 0;
  };
  Layout layout() const;
  void pack(char* to) const;
  // The masks, one after the other, go into a block of their own: they are large, and made late.
  int64_t mask_bytes(int64_t vocab) const;
  void pack_masks(char* to, int64_t vocab) const;
};

// The maximum size, in bytes, of rows that draw from one row of logits.
int64_t max_sample_bytes(int64_t vocab, int64_t context, int64_t num_rows);

}  // namespace pagedinfer
