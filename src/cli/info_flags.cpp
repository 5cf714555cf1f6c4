#include "cli/info_flags.h"

#include "cli/command_flags.h"
#include "cli/flag_help.h"
#include "cli/run_flags.h"

namespace pagedinfer {

void add_info_flags(CLI::App& command, InfoConfig& info) {
  add_own_flags(command, info_flags(), info);
  add_flags(command, info.config, is_of_info);
  command.footer("\nNo weights are loaded: of the checkpoint only the headers are read." +
                 exit_codes_help("info"));
}

}  // namespace pagedinfer
