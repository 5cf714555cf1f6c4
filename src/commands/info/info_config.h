// The flags of `info` that `run` does not have.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "commands/command.h"
#include "settings/config.h"
#include "settings/setting.h"

namespace pagedinfer {

// The command line of `info`.
struct InfoConfig {
  Config config = {};       // only settings that is_of_info() names are used
  std::string render = {};  // the file whose prompts are printed; "": describe the model instead
  bool ids = false;         // as token ids instead of text
  bool json = false;
};

using InfoFlag = CommandFlag<InfoConfig>;
std::span<const InfoFlag> info_flags();

// Whether `info` takes a setting of `run`. It takes the settings that decide how the model is read
// and how prompts are made.
bool is_of_info(const Setting& setting);

}  // namespace pagedinfer
