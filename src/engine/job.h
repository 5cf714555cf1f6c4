#pragma once

#include <functional>

#include "engine/setup.h"
#include "settings/config.h"

namespace pagedinfer {

// Runs the file of prompts that `config` names, from file in to file out. Returns the exit
// code: 0 all lines completed, 2 some ended in an error record, 130 interrupted. Throws Error
// when the run cannot go on. `load` gives what the engine runs on, as set_up() does.
using Load = std::function<Setup(const Config&, const std::function<double()>& clock)>;
int run_job(const Config& config, const Load& load = set_up);

}  // namespace pagedinfer
