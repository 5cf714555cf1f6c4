// What `verify` can be asked to do beside what `run` can.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "commands/command.h"
#include "commands/variant.h"
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

// Reads the texts of the two configurations, when all other flags are there. Throws Error.
void read_sides(const CommandLine& line, VerifyConfig& verify);

}  // namespace pagedinfer
