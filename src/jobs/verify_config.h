// What `verify` can be asked to do beside what `run` can.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "jobs/command_flag.h"
#include "jobs/variant.h"
#include "settings/config.h"
#include "settings/setting.h"

namespace pagedinfer {

// The command line of `verify`.
struct VerifyConfig {
  Config config = {};  // what both runs have in common
  Variant a = {.flags = "--kv contiguous"}, b = {.flags = "--kv paged"};
  std::optional<double> tolerance = {};  // in logits
  bool logits = false;                   // compare their bits too
  std::string output = {};  // where the differences go; "" = nowhere, - = standard output
};

using VerifyFlag = CommandFlag<VerifyConfig>;
std::span<const VerifyFlag> verify_flags();

std::span<const UnusedSetting> unused_in_verify();

// Whether the two configurations may differ in a setting: not where it changes the requests or what
// is done with their answers.
bool may_differ_in_verify(const Setting& setting);

}  // namespace pagedinfer
