#pragma once

#include "jobs/plan_config.h"

namespace CLI {
class App;
}

namespace pagedinfer {

// Gives `command` the flags of `pagedinfer plan`: its own and all of `run`. Parsing fills `config`,
// which must stay.
void add_plan_flags(CLI::App& command, PlanConfig& config);

}  // namespace pagedinfer
