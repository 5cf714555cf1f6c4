#pragma once

#include <span>
#include <string>
#include <vector>

#include "commands/command.h"

namespace pagedinfer {

// The command line of `merge`.
struct MergeConfig {
  std::vector<std::string> shards = {};  // outputs of ended runs
  std::string output = {};               // a file, or - for standard output
  bool overwrite = false;
  bool keep_jsonl = false;
  bool trust = false;  // accept shards without a .run file
  bool quiet = false;
};

std::span<const FlagOf<MergeConfig>> merge_flags();

// Merges the outputs of shards. Returns the exit code: 0, or 130 if it was interrupted. Throws
// Error if a shard is incomplete, if the shards do not belong to one run, or if the output cannot
// be written.
int run_merge(const MergeConfig& config);

}  // namespace pagedinfer
