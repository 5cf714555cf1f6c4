#pragma once

#include <string>
#include <string_view>

#include "core/result.h"
#include "grammar/regex_check.h"

namespace pagedinfer {

// The expression of a "format" of JSON Schema, as rewrite_regex() writes it for a string of JSON.
// All that it matches has the format and such lengths; it need not match all that has them.
// unsupported_schema: the format is not known; invalid_form: such lengths cannot be written.
Result<std::string> regex_of_format(std::string_view format, TextLengths lengths);

}  // namespace pagedinfer
