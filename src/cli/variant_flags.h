// Configurations that are compared, each a text with flags of `run`.
#pragma once

#include <string>
#include <string_view>

#include "jobs/variant.h"
#include "settings/setting.h"

namespace pagedinfer {

// What configurations may differ in.
struct VariantRules {
  bool (*may_differ)(const Setting& setting);
  std::string_view why_not;  // what a message says of another setting
  std::string_view help;     // where the flags are listed: "pagedinfer bench --help"
};

// The configuration of such a text, with `common` below. `flag` is the one that the text was given
// with. Throws Error, naming both, for a text that is not of flags in which configurations may
// differ.
Variant read_variant(std::string_view flag, const std::string& text, const Config& common,
                     const VariantRules& rules);

// As it is where a shell takes it for one word, else in quotes.
std::string shell_word(std::string_view word);

}  // namespace pagedinfer
