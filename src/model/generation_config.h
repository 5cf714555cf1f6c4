// generation_config.json: the sampling defaults of a model. What it says about single tokens goes
// into the ModelSpec.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/request.h"
#include "model/spec.h"
#include "settings/config.h"

namespace pagedinfer {

class JsonObject;

// Defaults for settings that neither the line nor a flag gives.
struct GenerationDefaults {
  GivenSampling sampling = {};  // a temperature only if the model says do_sample
  LengthFloor floor = {};

  // For notes to the user: settings of the file that are not used.
  bool names_top_k = true;                 // false: it samples and does not say top_k
  std::optional<int64_t> max_tokens = {};  // max_new_tokens, else max_length
  std::string unsupported = {};            // "num_beams 4, typical_p 0.9"
};

// Also sets suppressed, suppressed_first and forced_end of the spec. REQUIRES: vocab and eos_tokens
// of the spec are set. Complains of values of a wrong type or range, and goes on without them.
GenerationDefaults read_generation_config(const JsonObject& from, ModelSpec& spec);

}  // namespace pagedinfer
