#pragma once

#include "settings/config.h"

namespace pagedinfer {

// The configuration with --pack-weights auto decided: off where the lines of the input ask for so
// little that packing would take longer than it saves, else on. Depends on the lines and the
// settings only. Of a long input only the first lines are read; standard input and pipes are not
// read, and count as long. Throws Error if the input cannot be read.
Config with_packing_decided(const Config& config);

}  // namespace pagedinfer
