// Configurations for a comparison. Each is a text with flags of `run`.
#pragma once

#include <string>
#include <string_view>

#include "commands/variant.h"
#include "settings/setting.h"

namespace pagedinfer {

// As CommandLine::read_variant.
Variant read_variant(std::string_view flag, const std::string& text, const Config& common,
                     const VariantRules& rules);

// The word unchanged if a shell reads it as one word, else in quotes.
std::string shell_word(std::string_view word);

}  // namespace pagedinfer
