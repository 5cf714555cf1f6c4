#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "io/fingerprint.h"
#include "io/run_mark.h"

namespace pagedinfer {

// The runs that outputs come from, as far as they have left a PATH.run.
class ShardRuns {
 public:
  // Throws Error if the run has not ended, or is not one of a shard of the same run, and of the
  // same input, as those before.
  void add(const std::string& path);
  // When all are added. Throws Error if a shard is missing, where that can be known.
  void check_complete() const;

  // How many records the input has that the runs have read, where one has told of it.
  std::optional<int64_t> num_records() const {
    return first_.empty() ? std::nullopt : std::optional(mark_.lines);
  }

 private:
  std::map<std::string, std::string> files_, shards_;  // as they were given, by what they are
  std::string first_;        // whose settings and input the others must have
  Fingerprint fingerprint_;  // but for the shard
  RunMark mark_;
};

}  // namespace pagedinfer
