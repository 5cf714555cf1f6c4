#pragma once

#include "commands/info/info_config.h"
#include "commands/info/model_info.h"

namespace pagedinfer {

// Prints for each line of the file `config.render` the prompts as a run would give them to the
// model, or the error that the line would get. Returns 0, or 2 if any line would get an error.
// Throws Error if the file cannot be read or the output cannot be written.
int render_lines(const InfoConfig& config, const ModelInfo& model);

}  // namespace pagedinfer
