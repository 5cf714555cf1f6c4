// The text of a flag in --help and docs/flags.md.
#pragma once

#include <string>

#include "settings/setting.h"

namespace pagedinfer {

// The heading of --help.
std::string group_name(Group group);

// The default in words: "16", "by memory", or "model's, 1" if generation_config.json may set it.
// `value` is what the field has before a command line is parsed.
std::string default_of(const FlagRow& flag, const Value& value);
template <class Options>
std::string default_of(const FlagOf<Options>& flag) {
  static const Options defaults;
  return default_of(flag, flag.field.get(defaults));
}

// The placeholder after the flag in --help: "N", "paged|contiguous"; "" for a switch.
std::string placeholder_of(const FlagRow& flag);

// What the flag does, then its range and the names of values that the placeholder does not show.
std::string help_of(const FlagRow& flag);

}  // namespace pagedinfer
