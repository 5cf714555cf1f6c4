#include "commands/plan/plan_config.h"

#include "settings/setting.h"

namespace pagedinfer {
namespace {

void give_expected_tokens(const PlanFlag& flag, std::string_view text, PlanConfig& config) {
  config.expected_tokens = static_cast<int>(read_in_range(flag, text, IntegerRange{1, kMaxCount}));
}

constexpr std::string_view kPlan = "Plan";

constexpr PlanFlag kFlags[] = {
    {kPlan, "--expected-tokens", "N", "",
     "Tokens of a completion, for the sequences at once; without it each is as long as it may be.",
     "Give it where completions end by themselves.", give_expected_tokens},
    {kPlan, "--json", "", "", "Print one JSON object in place of the table.", "Give it in scripts.",
     [](const PlanFlag&, std::string_view, PlanConfig& config) { config.json = true; }},
};

}  // namespace

std::span<const PlanFlag> plan_flags() { return kFlags; }

}  // namespace pagedinfer
