#pragma once

#include "load/loaded_model.h"
#include "output/fingerprint.h"
#include "settings/config.h"

namespace pagedinfer {

// Everything but the input that the records of this run depend on: the model by the contents of
// its files, how it computes, what a line that does not say otherwise asks for, and the form of
// the records. Reads all of small files, and of weights the header and samples.
Fingerprint fingerprint_of(const Config& config, const LoadedModel& model, const RunPlan& plan);

}  // namespace pagedinfer
