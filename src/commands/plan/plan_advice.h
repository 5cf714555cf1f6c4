#pragma once

#include <vector>

#include "commands/plan/plan_report.h"

namespace pagedinfer {

// The flags whose values are far from the best ones for this input, each with the reason and a
// better value. REQUIRES: all of the report but its advice is there.
std::vector<Advice> advice_for(const PlanReport& report);

}  // namespace pagedinfer
