#pragma once

#include <string>
#include <vector>

#include "model/generation_config.h"
#include "settings/config.h"

namespace pagedinfer {

// What holds for a line that does not say otherwise: flags over generation_config.json over greedy.
// Without a tokenizer there is no text to look for the model's stop strings in.
SamplingParams default_sampling(const GivenSampling& flags, const GenerationDefaults& model,
                                bool has_tokenizer);

// A sentence for each wish of the model's that is not done, or not as transformers does it.
std::vector<std::string> generation_notes(const GivenSampling& flags,
                                          const GenerationDefaults& model, bool has_tokenizer);

}  // namespace pagedinfer
