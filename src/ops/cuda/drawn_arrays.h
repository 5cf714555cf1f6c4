#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/step_protocol.h"

namespace pagedinfer {

// The layout of the results of a sample(), in one block of memory of the device and one of the
// host: tokens first, then SampleReport::drawn, rows and candidates.
struct DrawnLayout {
  // For at most this number of rows, each with kMaxCandidates.
  explicit DrawnLayout(int64_t max_rows);

  int64_t logits = 0, rows = 0, candidates = 0, bytes = 0;
};

// The results that the rows of a sample() ask for, and their places in its block of memory.
class DrawnArrays {
 public:
  void set(std::span<const SampleRow> rows);
  size_t size() const { return rows_.size(); }
  // How much of the block is used, from its beginning.
  int64_t bytes(const DrawnLayout& layout) const;
  // Takes what was drawn from the block. REQUIRES: out.size() == size().
  void read(const DrawnLayout& layout, const char* block, std::span<DrawnToken> out) const;

 private:
  struct Row {
    bool reports = false;
    size_t first = 0;        // of the rows that draw from the same row of logits
    int64_t candidates = 0;  // the index of the first one
  };
  std::vector<Row> rows_ = {};
  bool any_report_ = false;
  int64_t num_candidates_ = 0;
};

}  // namespace pagedinfer
