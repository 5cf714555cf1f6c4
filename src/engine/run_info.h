#pragma once

#include "core/config.h"
#include "engine/setup.h"
#include "stats/lines.h"

namespace pagedinfer {

// What runs, with every setting as it is used, for the summary.
RunInfo describe_run(const Config& config, const Setup& setup);

}  // namespace pagedinfer
