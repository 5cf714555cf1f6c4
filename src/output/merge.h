#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/file_calls.h"

namespace pagedinfer {

struct MergeOptions {
  bool overwrite = false;
  bool trust = false;                   // take shards without a PATH.run as they are
  std::function<void()> check = [] {};  // called now and then; what it throws ends the merge
  FileCalls calls = {};
  int open_pipe = -1;  // as OutputFile
};

struct MergeReport {
  int64_t num_records = 0, num_failed = 0;
};

// Writes the records of `shards`, outputs of ended runs in either order, to `output` in the order
// of their indices; "-" is standard output. Before anything is written it is known that every
// index from 0 to the largest is there once and that the runs differ in their shard only, have each
// shard once, have read one input, which has as many records, and have written these; with `trust`
// as far as their PATH.run is there. A file gets its name when it is complete and on the disk.
// Memory is a bit for each record, and 16 bytes for each of a shard that is not in the order of the
// input. Throws Error naming the file, the line and the index of what is wrong; then the output is
// what it was.
MergeReport merge_shards(const std::vector<std::string>& shards, const std::string& output,
                         const MergeOptions& options);

}  // namespace pagedinfer
