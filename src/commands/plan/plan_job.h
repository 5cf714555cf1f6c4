#pragma once

#include "commands/plan/plan_config.h"

namespace pagedinfer {

// Prints to standard output what `run` would take with this configuration: memory, sequences at
// once and the tokens that the prefix cache saves. Reads the input once, in bounded memory, and no
// weights. Returns the exit code. Throws Error where `run` would not begin.
int run_plan_job(const PlanConfig& config);

}  // namespace pagedinfer
