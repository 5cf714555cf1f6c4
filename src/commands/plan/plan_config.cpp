#include "commands/plan/plan_config.h"

#include "settings/setting.h"

namespace pagedinfer {
namespace {

void give_expected_tokens(const PlanFlag& flag, std::string_view text, PlanConfig& config) {
  config.expected_tokens = static_cast<int>(read_in_range(flag, text, IntegerRange{1, kMaxCount}));
}

constexpr std::string_view kPlan = "Plan";

constexpr PlanFlag kPlanFlags[] = {
    {kPlan, "--expected-tokens", "N", "",
     "Tokens of a completion, for the number of sequences that run at once. Without it every "
     "completion has its maximum length.",
     "For completions that end before their maximum.", give_expected_tokens},
    {kPlan, "--json", "", "", "Print one JSON object instead of the table.", "For scripts.",
     give_switch<&PlanConfig::json>},
};

}  // namespace

std::span<const PlanFlag> plan_flags() { return kPlanFlags; }

}  // namespace pagedinfer
