// What holds for a line that does not say otherwise: flags over generation_config.json over greedy.
#pragma once

#include <string>
#include <vector>

#include "core/request.h"
#include "model/generation_config.h"
#include "settings/config.h"

namespace pagedinfer {

// Without a tokenizer there is no text to look for the model's stop strings in.
SamplingParams default_sampling(const Config::Sampling& flags, const GenerationDefaults& model,
                                bool has_tokenizer);

// A sentence for each wish of the model's that is not done, or not as transformers does it.
std::vector<std::string> generation_notes(const Config::Sampling& flags,
                                          const GenerationDefaults& model, bool has_tokenizer);

}  // namespace pagedinfer
