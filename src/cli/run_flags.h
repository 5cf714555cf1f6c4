#pragma once

#include <functional>

#include "settings/config.h"
#include "settings/setting.h"

namespace CLI {
class App;
}

namespace pagedinfer {

// Gives `command` the flags of `pagedinfer run`; parsing fills `config`, which must stay.
void add_run_flags(CLI::App& command, Config& config);

// The flags of the settings that `takes` takes, without what --help says at its end.
void add_flags(CLI::App& command, Config& config, const std::function<bool(const Setting&)>& takes);

}  // namespace pagedinfer
