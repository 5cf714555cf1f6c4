#pragma once

#include "engine/setup.h"
#include "settings/config.h"
#include "stats/lines.h"

namespace pagedinfer {

// What runs, with every setting as it is used, for the summary.
RunInfo describe_run(const Config& config, const Setup& setup);

}  // namespace pagedinfer
