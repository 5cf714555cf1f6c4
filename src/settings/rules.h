// Rules that involve more than one setting.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "settings/config.h"

namespace pagedinfer {

// Refuses settings that contradict each other. Only given settings conflict; resolve() switches off
// a default that does not fit. Throws Error naming the flags and the fix. REQUIRES:
// check_values(config) passed.
void check_rules(const Config& config);

// The rule of check_rules() about the adapter.
void check_adapter(const Config& config);

// Refuses two sampling settings that contradict each other: invalid_value. `name_of` spells a key
// for the message: "--min-tokens".
Result<> check_together(const SamplingParams& sampling,
                        const std::function<std::string(std::string_view)>& name_of);

struct Resolved {
  Config config;  // its kv, prefix_cache, chunked_prefill, max_batch_size and max_step_tokens are
                  // final
  // A sentence for each default that does not fit what was given and is switched off.
  std::vector<std::string> notes = {};
};

// `usual_step_tokens` is the default of max_step_tokens when prompts are computed in chunks; a
// larger max_batch_size replaces it. Throws Error if prompts are computed whole and
// --max-step-tokens has no room for the longest. REQUIRES: check_rules(config) passed.
Resolved resolve(const Config& config, int max_model_len, int usual_step_tokens);

}  // namespace pagedinfer
