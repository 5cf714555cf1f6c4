#pragma once

#include <string>
#include <vector>

namespace pagedinfer {

// What `merge` was asked to do.
struct MergeConfig {
  std::vector<std::string> shards = {};  // outputs of ended runs
  std::string output = {};               // a file, or - for standard output
  bool overwrite = false;
  bool trust = false;  // shards that nothing tells of
  bool quiet = false;
};

// Puts the shards' records together. Returns the exit code: 0, or 130 when it was interrupted.
// Throws Error when the shards are not whole or do not belong together, or the output cannot be
// written.
int run_merge(const MergeConfig& config);

}  // namespace pagedinfer
