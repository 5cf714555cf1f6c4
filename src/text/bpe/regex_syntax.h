#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pagedinfer {

// The first thing in a pattern that is not known to mean the same in Oniguruma's Ruby syntax,
// for which tokenizer.json is written, and in PCRE2; nothing if all of it does.
std::optional<std::string> foreign_syntax(std::string_view pattern);

}  // namespace pagedinfer
