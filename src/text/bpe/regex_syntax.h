#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pagedinfer {

// The first construct of a pattern that may differ in meaning between Oniguruma's Ruby syntax,
// which tokenizer.json uses, and PCRE2; nullopt if there is none.
std::optional<std::string> foreign_syntax(std::string_view pattern);

}  // namespace pagedinfer
