// What `plan` can be asked beside what `run` can.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "settings/config.h"

namespace pagedinfer {

struct PlanConfig {
  Config config = {};  // of the run that is planned
  std::optional<int> expected_tokens = {};
  bool json = false;
  bool estimates_duration = true;
};

// A flag of plan alone.
struct PlanFlag {
  std::string_view flag, value;  // a switch has no value
  std::string_view help, when;   // sentences, as those of a Setting
  // Takes what stands behind the flag. Throws Error if that is not allowed.
  void (*give)(const PlanFlag& flag, std::string_view text, PlanConfig& config);
};

std::span<const PlanFlag> plan_flags();

}  // namespace pagedinfer
