#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/file_calls.h"

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
// "-" is standard output. Checks everything before it writes: that every index from 0 to the
// largest occurs once, and by the PATH.run files that the runs differ in nothing but the shard,
// that no shard is missing or given twice, that all have read the same input, and that the outputs
// are what the runs have written. An output file is synced before it gets its name. Memory: one bit
// for each record, and 16 bytes for each record of a shard that is not in input order. Throws Error
// naming file, line and index; then the output is unchanged.
MergeReport merge_shards(const std::vector<std::string>& shards, const std::string& output,
                         const MergeOptions& options);

}  // namespace pagedinfer
