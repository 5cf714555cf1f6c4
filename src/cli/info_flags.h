#pragma once

#include "jobs/info_config.h"

namespace CLI {
class App;
}

namespace pagedinfer {

// Gives `command` the flags of `pagedinfer info`; parsing fills `info`, which must stay.
void add_info_flags(CLI::App& command, InfoConfig& info);

}  // namespace pagedinfer
