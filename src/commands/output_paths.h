#pragma once

#include <string>
#include <string_view>

#include "settings/config.h"

namespace pagedinfer {

struct Paths {
  std::string output;  // a file, or - for standard output
  std::string stats;   // "" = none
};

// For the input NAME.jsonl or NAME.jsonl.gz (or a NAME without these endings)
// NAME.completions.jsonl and NAME.stats.jsonl; of shard I/N NAME.I-of-N.completions.jsonl and so
// on. From standard input to standard output; with either of them, statistics are written only
// where --stats says.
Paths resolve_paths(const Config& config);

// Throws Error, naming `flag`, if the name says that the file is compressed: what is written never
// is.
void check_output_name(std::string_view flag, std::string_view path);

}  // namespace pagedinfer
