#pragma once

#include <string>
#include <vector>

#include "model/generation_config.h"
#include "settings/config.h"

namespace pagedinfer {

// The settings of a line that gives none: flags over generation_config.json over greedy. Without a
// tokenizer there is no text in which the model's stop strings could be found.
SamplingParams default_sampling(const GivenSampling& flags, const GenerationDefaults& model,
                                bool has_tokenizer);

// A sentence for each setting of generation_config.json that is ignored, or that transformers
// applies in another way.
std::vector<std::string> generation_notes(const GivenSampling& flags,
                                          const GenerationDefaults& model, bool has_tokenizer);

}  // namespace pagedinfer
