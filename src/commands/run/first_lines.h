// Whether a file is of lines that the run can answer at all.
#pragma once

#include "io/interrupt.h"
#include "load/loaded_model.h"
#include "settings/config.h"

namespace pagedinfer {

// Throws Error if the input is a regular file of at least kFirstLines lines (not counting blank
// ones), and each of the first kFirstLines has no prompt, or has one for which the model has no
// chat template or tokenizer: a flag is missing or wrong, and error records would not help. Reads
// no further than the first line that is not such a line. Throws Interrupted.
inline constexpr int kFirstLines = 100;
void check_first_lines(const Config& config, const LoadedModel& model, const PromptLimits& limits,
                       const Interrupt& interrupt);

}  // namespace pagedinfer
