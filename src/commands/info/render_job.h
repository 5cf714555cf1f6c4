#pragma once

#include "commands/info/info_config.h"
#include "commands/info/model_info.h"

namespace pagedinfer {

// Prints the prompts of the lines of `config.render`, as a run would give them to the model, or the
// error that the line would get. Returns 0, or 2 if there was such an error. Throws Error if the
// file cannot be read or the output not be written.
int render_lines(const InfoConfig& config, const ModelInfo& model);

}  // namespace pagedinfer
