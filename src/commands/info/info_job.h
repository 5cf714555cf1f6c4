#pragma once

#include "commands/info/info_config.h"

namespace pagedinfer {

// Describes the model, or prints prompts, on standard output. Returns the exit code: 0; 1 if `run`
// would refuse the model; 2 if a line of the file would get an error record. Throws Error if the
// directory does not exist or the output cannot be written.
int run_info(const InfoConfig& config);

}  // namespace pagedinfer
