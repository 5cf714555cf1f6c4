#pragma once

#include <optional>
#include <span>

#include "settings/config.h"
#include "settings/setting.h"

namespace pagedinfer {

// The command line of `plan`.
struct PlanConfig {
  Config config = {};  // of the run that is planned
  std::optional<int> expected_tokens = {};
  bool json = false;
};

std::span<const FlagOf<PlanConfig>> plan_flags();

// Prints to standard output what `run` would need with this configuration: memory, the number of
// sequences at once, and the tokens that the prefix cache saves. Reads the input once, in bounded
// memory, and no weights. Returns the exit code. Throws Error if `run` would refuse to begin.
int run_plan_job(const PlanConfig& config);

}  // namespace pagedinfer
