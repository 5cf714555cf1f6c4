#pragma once

#include "core/config.h"

namespace pagedinfer {

// Runs the file of prompts that `config` names, from file in to file out. Returns the exit
// code: 0 all lines completed, 2 some ended in an error record, 130 interrupted. Throws Error
// when the run cannot go on.
int run_job(const Config& config);

}  // namespace pagedinfer
