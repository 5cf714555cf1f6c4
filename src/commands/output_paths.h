#pragma once

#include <string>
#include <string_view>

#include "settings/config.h"

namespace pagedinfer {

struct Paths {
  std::string output;   // the JSON lines: a file, or - for standard output
  std::string stats;    // "" = none
  std::string summary;  // "" = none
  std::string made;     // of the output when that is complete, as its name asks for; "" = none
};

// The output of NAME.jsonl, NAME.csv or NAME.tsv, with or without .gz or .zst behind it (or of a
// NAME without these endings), is NAME.completions.jsonl, of shard I/N
// NAME.I-of-N.completions.jsonl; of standard input it is standard output. Beside
// NAME.completions.jsonl, or NAME.jsonl or NAME.csv, packed or not, stands NAME.stats.jsonl, and
// beside that NAME.summary.json. Beside a stream stands nothing.
Paths resolve_paths(const Config& config);
// Whether an output has been made and its JSON lines are gone.
bool is_only_made(const Paths& paths);

// Throws Error naming `flag` if the file's name asks for a form that is not written there. Records
// (`of_records`) may be compressed or a table, unless they go to a pipe or device.
void check_output_name(std::string_view flag, const std::string& path, bool of_records = false);

}  // namespace pagedinfer
