#pragma once

#include <cstdint>
#include <functional>

#include "settings/config.h"
#include "settings/setting.h"

namespace CLI {
class App;
}

namespace pagedinfer {

// Which settings --help shows: all under the headings of their groups, the usual ones under a
// heading of their own, or none.
enum class ShownSettings : uint8_t { kAll, kUsual, kNone };

// Gives `command` the flags of the settings for which `takes` is true. Parsing fills `config`.
// REQUIRES: `config` outlives `command`.
void add_setting_flags(CLI::App& command, Config& config, ShownSettings shown,
                       const std::function<bool(const Setting&)>& takes);

}  // namespace pagedinfer
