// A configuration of a comparison.
#pragma once

#include <string>
#include <string_view>

#include "settings/config.h"
#include "settings/setting.h"

namespace pagedinfer {

struct Variant {
  std::string flags = {};  // as the command line gives them
  Config config = {};      // the common flags, overridden by these
};

// Whether configurations that differ in this setting can run over one loaded model on one device.
inline bool can_share_model(const Setting& setting) {
  return setting.group == Group::kCache || setting.group == Group::kScheduling ||
         setting.key == "max_model_len";
}

// The settings in which configurations may differ.
struct VariantRules {
  bool (*may_differ)(const Setting& setting);
  std::string_view why_not;  // the end of a message about any other setting
  std::string_view help;     // where the flags are listed: "pagedinfer bench --help"
};

}  // namespace pagedinfer
