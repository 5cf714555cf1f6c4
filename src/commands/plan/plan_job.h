#pragma once

#include "commands/plan/plan_config.h"

namespace pagedinfer {

// Prints to standard output what `run` would need with this configuration: memory, the number of
// sequences at once, and the tokens that the prefix cache saves. Reads the input once, in bounded
// memory, and no weights. Returns the exit code. Throws Error if `run` would refuse to begin.
int run_plan_job(const PlanConfig& config);

}  // namespace pagedinfer
