#pragma once

#include <functional>

#include "engine/loaded_model.h"
#include "settings/config.h"

namespace pagedinfer {

// Runs the file of prompts that `config` names, from file in to file out. Returns the exit
// code: 0 all lines completed, 2 some ended in an error record, 130 interrupted. Throws Error
// when the run cannot go on. `load` loads the model for this configuration.
using Load = std::function<LoadedModel(const Config&, const std::function<double()>& clock)>;
int run_job(
    const Config& config,
    const Load& load = [](const Config& config, const std::function<double()>& clock) {
      return load_model({config}, clock);
    });

}  // namespace pagedinfer
