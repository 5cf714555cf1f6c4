#pragma once

#include <string>

#include "settings/config.h"

namespace pagedinfer {

// The command line of `info`.
struct InfoConfig {
  Config config = {};       // of it the settings that `info` has in common with `run`
  std::string render = {};  // the file whose prompts are printed; "" = none, the model is described
  bool ids = false;         // as token ids instead of text
  bool json = false;
};

// Describes the model, or prints prompts, on standard output. Returns the exit code: 0; 1 if `run`
// would refuse the model; 2 if a line of the file would get an error record. Throws Error if there
// is no such directory, or the output cannot be written.
int run_info(const InfoConfig& config);

}  // namespace pagedinfer
