#pragma once

#include <string>
#include <string_view>

#include "settings/config.h"

namespace pagedinfer {

struct Paths {
  std::string output;   // a file, or - for standard output
  std::string stats;    // "" = none
  std::string summary;  // "" = none
};

// The output of NAME.jsonl, NAME.csv or NAME.tsv, with or without .gz or .zst behind it (or of a
// NAME without these endings), is NAME.completions.jsonl, of shard I/N
// NAME.I-of-N.completions.jsonl; of standard input it is standard output. Beside
// NAME.completions.jsonl, or NAME.jsonl, stands NAME.stats.jsonl, and beside that
// NAME.summary.json. Beside a stream stands nothing.
Paths resolve_paths(const Config& config);

// Throws Error naming `flag` if the file's name ends like a compressed file's. Output is never
// compressed.
void check_output_name(std::string_view flag, std::string_view path);

}  // namespace pagedinfer
