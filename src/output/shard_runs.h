#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "output/fingerprint.h"
#include "output/run_mark.h"

namespace pagedinfer {

// Compares the runs whose outputs are merged, by the PATH.run files beside these.
class ShardRuns {
 public:
  // Throws Error if the run has not ended, or differs from those before in its settings (other than
  // the shard) or its input.
  void add(const std::string& path);
  // To be called when all are added. Throws Error if a shard is missing and, unless `trust`, if an
  // output has no PATH.run.
  void check_complete(bool trust) const;
  // Throws Error if `found`, the contents of the output, is not what its run has written.
  void check_output(const std::string& path, const OutputPrefix& found) const;

  // The records of the input; nullopt if no output has a PATH.run.
  std::optional<int64_t> num_records() const {
    return first_.empty() ? std::nullopt : std::optional(mark_.lines);
  }

 private:
  std::map<std::string, std::string> files_, shards_;  // paths, by canonical path and by shard
  std::map<std::string, OutputPrefix> outputs_;        // by path
  std::string unknown_;                                // the first output without a PATH.run
  std::string first_;        // the output whose settings and input the others must have
  Fingerprint fingerprint_;  // its settings but for the shard
  RunMark mark_;
};

}  // namespace pagedinfer
