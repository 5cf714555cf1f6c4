#pragma once

#include <span>
#include <string>

#include "settings/config.h"
#include "settings/setting.h"

namespace pagedinfer {

// The command line of `info`.
struct InfoConfig {
  Config config = {};       // only settings that is_of_info() names are used
  std::string render = {};  // the file whose prompts are printed; "": describe the model instead
  bool ids = false;         // as token ids instead of text
  bool json = false;
};

std::span<const FlagOf<InfoConfig>> info_flags();

// Whether `info` takes a setting of `run`. It takes the settings that decide how the model is read
// and how prompts are made.
bool is_of_info(const Setting& setting);

// Describes the model, or prints prompts, on standard output. Returns the exit code: 0; 1 if `run`
// would refuse the model; 2 if a line of the file would get an error record. Throws Error if the
// directory does not exist or the output cannot be written.
int run_info(const InfoConfig& config);

}  // namespace pagedinfer
