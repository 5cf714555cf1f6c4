// The flags of `verify` that `run` does not have.
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
  std::string output = {};               // the file for differences; "": none, "-": standard output
};

std::span<const FlagOf<VerifyConfig>> verify_flags();

std::span<const UnusedSetting> unused_in_verify();

// Parses the texts of the two configurations. Throws Error. REQUIRES: all other flags are parsed.
void read_sides(const CommandLine& line, VerifyConfig& verify);

}  // namespace pagedinfer
