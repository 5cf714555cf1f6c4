#include "engine/job.h"

#include "core/error.h"

namespace pagedinfer {

int run_job(const Config& config) { throw Error(config.input + ": nothing runs yet"); }

}  // namespace pagedinfer
