#pragma once

#include "settings/config.h"

namespace CLI {
class App;
}

namespace pagedinfer {

// Gives `command` the flags of `pagedinfer run`; parsing fills `config`, which must stay.
void add_run_flags(CLI::App& command, Config& config);

}  // namespace pagedinfer
