// What the flags that were not given become. Pure functions of those that were.
#pragma once

#include <string>
#include <vector>

#include "settings/config.h"

namespace pagedinfer {

inline constexpr int kDefaultBlockSize = 16;
inline constexpr int kDefaultBatchSize = 256;
inline constexpr int kDefaultPrefillChunkSize = 512;
inline constexpr double kDefaultGpuMemoryUtilization = 0.9;

struct Paths {
  std::string output;  // a file, or - for standard output
  std::string stats;   // "" = none
};

// For the input NAME.jsonl or NAME.jsonl.gz (or a NAME without these endings)
// NAME.completions.jsonl and NAME.stats.jsonl; of shard I/N NAME.I-of-N.completions.jsonl and so
// on. From standard input to standard output; with either of them, statistics are written only
// where --stats says.
Paths resolve_paths(const Config& config);

struct Resolved {
  Config::Kv kv = Config::Kv::kPaged;
  int block_size = 0;
  bool chunked_prefill = true;
  int prefill_chunk_size = 0;
  int max_batch_size = 0;
  int max_step_tokens = 0;
  // A sentence for each default that does not fit what was given and is switched off.
  std::vector<std::string> notes = {};
};

// `usual_step_tokens`: max_step_tokens where it is not given, or max_batch_size, if that is more.
// REQUIRES: validate(config) passed. Throws Error when whole prompts were asked for and
// --max-step-tokens has no room for the longest one.
Resolved resolve(const Config& config, int max_model_len, int usual_step_tokens);

}  // namespace pagedinfer
