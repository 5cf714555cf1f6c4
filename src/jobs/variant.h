// A configuration that is compared with others.
#pragma once

#include <string>

#include "settings/config.h"
#include "settings/setting.h"

namespace pagedinfer {

struct Variant {
  std::string flags = {};  // as the command line gives them
  Config config = {};      // the common flags with these on top
};

// Whether configurations that differ in this setting can run over one loaded model on one device.
inline bool can_share_model(const Setting& setting) {
  return setting.group == Group::kCache || setting.group == Group::kScheduling ||
         setting.key == "max_model_len";
}

}  // namespace pagedinfer
