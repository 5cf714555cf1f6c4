#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/fingerprint.h"

namespace pagedinfer {

// The runs that outputs come from, as far as they have left a PATH.run.
class ShardRuns {
 public:
  // Throws Error if the run has not ended, or is not one of a shard of the same run as those
  // before.
  void add(const std::string& path);
  // When all are added. Throws Error if a shard is missing, where that can be known.
  void check_complete() const;

  // How many lines a run has read, in the order of adding.
  std::optional<int64_t> num_lines(size_t shard) const { return num_lines_[shard]; }

 private:
  std::map<std::string, std::string> files_, shards_;  // as they were given, by what they are
  std::vector<std::optional<int64_t>> num_lines_;
  std::string first_;        // whose settings the others must have
  Fingerprint fingerprint_;  // but for the shard
};

}  // namespace pagedinfer
