#pragma once

#include <string_view>

#include "jinja/value.h"

namespace pagedinfer::jinja {

// The value of a JSON text, as Python's json.loads() gives it: keys in their order, the last value
// of a key that comes twice. `marked`: strings and keys are text that people wrote. Throws
// TemplateError if it is no JSON text of UTF-8, nested too deep, or if an integer is beyond 64
// bits.
Value from_json(std::string_view json, bool marked);

}  // namespace pagedinfer::jinja
