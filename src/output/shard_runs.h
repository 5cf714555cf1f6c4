#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "output/fingerprint.h"
#include "output/run_mark.h"

namespace pagedinfer {

// Compares the runs whose outputs are merged, by the PATH.run files beside the outputs.
class ShardRuns {
 public:
  // Throws Error if the run has not ended, or if its input or a setting other than the shard
  // differs from the runs added before.
  void add(const std::string& path);
  // Throws Error if a shard is missing or, unless `trust`, an output has no PATH.run. REQUIRES: all
  // outputs were added.
  void check_complete(bool trust) const;
  // Throws Error if `found`, which describes the output's contents, is not what the run has
  // written.
  void check_output(const std::string& path, const OutputPrefix& found) const;

  // The contents of the PATH.run of a merged output, which is resumed as a single run in the order
  // of the input; nullopt if an output has no PATH.run. REQUIRES: check_complete() was called.
  std::optional<std::string> merged_header(const OutputPrefix& merged) const;

  // The number of records of the whole input; nullopt if no output has a PATH.run.
  std::optional<int64_t> num_records() const {
    return first_.empty() ? std::nullopt : std::optional(mark_.lines);
  }

 private:
  std::map<std::string, std::string> files_, shards_;  // paths, by canonical path and by shard
  std::map<std::string, OutputPrefix> outputs_;        // by path
  std::string unknown_;                                // the first output without a PATH.run
  std::string first_;        // the output whose settings and input the others must have
  Fingerprint fingerprint_;  // its settings without the shard
  RunMark mark_;
};

}  // namespace pagedinfer
