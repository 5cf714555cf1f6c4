#pragma once

#include <string>
#include <vector>

#include "model/generation_config.h"
#include "settings/config.h"

namespace pagedinfer {

// The settings of a line that gives none: flags override generation_config.json, which overrides
// greedy decoding. Without a tokenizer the model's stop strings are left out, because there is no
// text to find them in.
SamplingParams default_sampling(const GivenSampling& flags, const GenerationDefaults& model,
                                bool has_tokenizer);

// A sentence for each setting of generation_config.json that is ignored, or that transformers
// applies differently.
std::vector<std::string> generation_notes(const GivenSampling& flags,
                                          const GenerationDefaults& model, bool has_tokenizer);

}  // namespace pagedinfer
