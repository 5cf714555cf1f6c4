#pragma once

#include "load/loaded_model.h"
#include "output/fingerprint.h"
#include "settings/config.h"

namespace pagedinfer {

// Everything except the input that the records of this run depend on: the contents of the model's
// files, how it computes, the default settings of a line, and the form of the records. Small files
// are read whole; of weights the header and samples are read.
Fingerprint fingerprint_of(const Config& config, const LoadedModel& model, const RunPlan& plan);

}  // namespace pagedinfer
