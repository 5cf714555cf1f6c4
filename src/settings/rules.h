// What settings say together.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "settings/config.h"

namespace pagedinfer {

// Refuses settings that contradict each other. Only what was given conflicts; a default that does
// not fit is switched off by resolve(). Throws Error naming the flags and the fix.
// REQUIRES: check_values(config) passed.
void check_rules(const Config& config);

// The part of check_rules() about the adapter.
void check_adapter(const Config& config);

// Says which two sampling settings contradict each other; "" if none do. `name_of` spells a key as
// the message shows it: "--min-tokens".
std::string conflict_in(const SamplingParams& sampling,
                        const std::function<std::string(std::string_view)>& name_of);

struct Resolved {
  Config config;  // kv, prefix_cache, chunked_prefill, max_batch_size and max_step_tokens are used
  // A sentence for each default that does not fit what was given and is switched off.
  std::vector<std::string> notes = {};
};

// `usual_step_tokens`: max_step_tokens where it is not given, or max_batch_size, if that is more.
// Throws Error when whole prompts were asked for and --max-step-tokens has no room for the longest
// one. REQUIRES: check_rules(config) passed.
Resolved resolve(const Config& config, int max_model_len, int usual_step_tokens);

}  // namespace pagedinfer
