#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/file_names.h"

namespace pagedinfer {

struct MergeOptions {
  bool overwrite = false;
  bool trust = false;                   // accept shards without a PATH.run
  std::function<void()> check = [] {};  // called now and then; may throw to cancel
  FileCalls calls = {};
  int open_pipe = -1;  // as OutputFile
};

struct MergeReport {
  int64_t num_records = 0, num_failed = 0;
};

// Merges `shards`, the outputs of ended runs in either order of records, into `output` by index.
// "-" is standard output. Checks everything before it writes. Every index from 0 to the largest
// must occur once. By the PATH.run files, the runs must differ in nothing but the shard, no shard
// may be missing or given twice, all runs must have read the same input, and each output must be
// what its run has written. An output file is synced before it gets its name, and gets a PATH.run
// if all shards have one, so that it can be resumed. Memory: one bit for each record, and 16 bytes
// for each record of a shard that is not in input order. Throws Error naming file, line and index;
// then the output is unchanged.
MergeReport merge_shards(const std::vector<std::string>& shards, const std::string& output,
                         const MergeOptions& options);

}  // namespace pagedinfer
