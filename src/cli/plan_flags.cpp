#include "cli/plan_flags.h"

#include "cli/command_flags.h"
#include "cli/flag_help.h"
#include "cli/run_flags.h"

namespace pagedinfer {

void add_plan_flags(CLI::App& command, PlanConfig& config) {
  add_own_flags(command, plan_flags(), config);
  add_flags(command, config.config, [](const Setting&) { return true; });
  command.footer(
      "\nTakes the flags of run, so that one command line serves both; no file is written." +
      exit_codes_help("plan"));
}

}  // namespace pagedinfer
