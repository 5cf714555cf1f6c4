// The flags of `plan` that `run` does not have.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "commands/command.h"
#include "settings/config.h"

namespace pagedinfer {

struct PlanConfig {
  Config config = {};  // of the run that is planned
  std::optional<int> expected_tokens = {};
  bool json = false;
};

using PlanFlag = CommandFlag<PlanConfig>;
std::span<const PlanFlag> plan_flags();

}  // namespace pagedinfer
