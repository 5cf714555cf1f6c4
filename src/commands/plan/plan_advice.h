#pragma once

#include <vector>

#include "commands/plan/plan_report.h"

namespace pagedinfer {

// The flags whose values are far from the best for this input, each with the reason and a better
// value. REQUIRES: the report is complete except for its advice.
std::vector<Advice> advice_for(const PlanReport& report);

}  // namespace pagedinfer
