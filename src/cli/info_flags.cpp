#include "cli/info_flags.h"

#include "cli/command_flags.h"
#include "cli/run_flags.h"

namespace pagedinfer {

void add_info_flags(CLI::App& command, InfoConfig& info) {
  add_own_flags(command, info_flags(), info);
  add_flags(command, info.config, is_of_info);
  command.footer(
      "\nNo weights are loaded: of the checkpoint only the headers are read."
      "\nExit codes: 0 a run takes the model, or all lines; 1 it would refuse the model, with the"
      "\nreasons above, or there is no model; 2 some lines of --render would end in an error "
      "record.");
}

}  // namespace pagedinfer
