#include "cli/plan_flags.h"

#include <fmt/format.h>

#include <string>

#include "cli/flag_help.h"
#include "cli/run_flags.h"

namespace pagedinfer {

void add_plan_flags(CLI::App& command, PlanConfig& config) {
  for (const PlanFlag& flag : plan_flags()) {
    const std::string name(flag.flag);
    CLI::Option* const option =
        flag.value.empty()
            ? command.add_flag_callback(name, [&] { flag.give(flag, "", config); })
            : command.add_option_function<std::string>(
                  name, [&](const std::string& text) { flag.give(flag, text, config); });
    set_help(*option, "Plan", std::string(flag.value), fmt::format("{} {}", flag.help, flag.when));
  }
  add_flags(command, config.config, [](const Setting&) { return true; });
  command.footer(
      "\nTakes the flags of run, so that one command line serves both; no file is written."
      "\nExit codes: 0 the plan is printed, 1 such a run could not begin, 130 interrupted.");
}

}  // namespace pagedinfer
