// What --help and docs/flags.md say of a setting.
#pragma once

#include <string>

#include "settings/setting.h"

namespace pagedinfer {

// The heading of --help.
std::string group_name(Group group);

// The default in words: "16", "by memory" or, where generation_config.json may say it,
// "model's, 1".
std::string default_of(const Setting& setting);

// What stands behind the flag in --help: "N", "paged|contiguous"; "" of a switch.
std::string placeholder_of(const Setting& setting);

// What it does, with its range and the names of its values that the placeholder does not show.
std::string help_of(const Setting& setting);

}  // namespace pagedinfer
