// What `info` can be asked beside what `run` can.
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
  Config config = {};       // of it the settings that `info` has in common with `run`
  std::string render = {};  // the file whose prompts are printed; "" = none, the model is described
  bool ids = false;         // as token ids instead of text
  bool json = false;
};

using InfoFlag = CommandFlag<InfoConfig>;
std::span<const InfoFlag> info_flags();

// Whether `info` takes a setting of `run`: those that say how the model is read and how prompts are
// made.
bool is_of_info(const Setting& setting);

}  // namespace pagedinfer
