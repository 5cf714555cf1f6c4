#pragma once

#include "load/model_plan.h"
#include "output/fingerprint.h"
#include "settings/config.h"
#include "stats/lines.h"

namespace pagedinfer {

// Every setting as the run uses it. Values that are derived from the model or the machine are
// filled in.
Config used_config(const Config& config, const ModelPlan& model, const RunPlan& plan);

// Describes the run for the summary line: version, input, model, device, and every setting with the
// value that was used.
RunInfo describe_run(const Config& config, const ModelPlan& model, const RunPlan& plan);

// Everything except the input that the records of this run depend on: the contents of the model's
// files, how it computes, the default settings of a line, and the form of the records. Small files
// are read whole; of weights the header and samples are read.
Fingerprint fingerprint_of(const Config& config, const ModelPlan& model, const RunPlan& plan);

}  // namespace pagedinfer
