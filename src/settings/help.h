// The text of a setting in --help and docs/flags.md.
#pragma once

#include <string>

#include "settings/setting.h"

namespace pagedinfer {

// The heading of --help.
std::string group_name(Group group);

// The default in words: "16", "by memory", or "model's, 1" if generation_config.json may set it.
std::string default_of(const Setting& setting);

// The placeholder after the flag in --help: "N", "paged|contiguous"; "" for a switch.
std::string placeholder_of(const Setting& setting);

// What the setting does, then its range and the names of values that the placeholder does not show.
std::string help_of(const Setting& setting);

}  // namespace pagedinfer
