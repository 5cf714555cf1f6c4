#pragma once

#include "settings/config.h"

namespace pagedinfer {

// Refuses a configuration that cannot run, before anything is loaded: values out of range, flags
// that exclude each other, one file in two roles. Only given flags conflict. Looks at files but
// opens none. Throws Error naming the flag and the fix.
void validate(const Config& config);

}  // namespace pagedinfer
