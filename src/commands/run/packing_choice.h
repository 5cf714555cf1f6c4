#pragma once

#include "settings/config.h"

namespace pagedinfer {

// The configuration with --pack-weights auto replaced: by off if the input asks for so little that
// packing would take longer than it saves, else by on. Depends on the lines and the settings only.
// Reads no more lines than the decision needs. Standard input and pipes are not read and count as
// long. Throws Error if the input cannot be read.
Config with_packing_decided(const Config& config);

}  // namespace pagedinfer
