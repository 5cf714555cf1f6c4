#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "output/fingerprint.h"
#include "output/run_mark.h"

namespace pagedinfer {

// The runs that outputs come from, as far as they have left a PATH.run.
class ShardRuns {
 public:
  // Throws Error if the run has not ended, or is not one of a shard of the same run, and of the
  // same input, as those before.
  void add(const std::string& path);
  // When all are added. Throws Error if a shard is missing and, unless `trust`, if one has left
  // nothing that tells of it.
  void check_complete(bool trust) const;
  // Throws Error if the file does not hold what its run has written.
  void check_output(const std::string& path, const OutputPrefix& found) const;

  // How many records the input has that the runs have read, where one has told of it.
  std::optional<int64_t> num_records() const {
    return first_.empty() ? std::nullopt : std::optional(mark_.lines);
  }

 private:
  std::map<std::string, std::string> files_, shards_;  // as they were given, by what they are
  std::map<std::string, OutputPrefix> outputs_;        // by path
  std::string untold_;                                 // the first output without a PATH.run
  std::string first_;        // whose settings and input the others must have
  Fingerprint fingerprint_;  // but for the shard
  RunMark mark_;
};

}  // namespace pagedinfer
