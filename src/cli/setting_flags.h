#pragma once

#include <functional>

#include "settings/config.h"
#include "settings/setting.h"

namespace CLI {
class App;
}

namespace pagedinfer {

// Gives `command` the flags of the settings for which `takes` is true. Parsing fills `config`.
// REQUIRES: `config` outlives `command`.
void add_setting_flags(CLI::App& command, Config& config,
                       const std::function<bool(const Setting&)>& takes);

}  // namespace pagedinfer
