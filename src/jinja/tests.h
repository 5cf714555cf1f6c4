#pragma once

#include <string_view>

#include "jinja/runtime.h"

namespace pagedinfer::jinja {

// Whether there is a test of that name.
bool is_test(std::string_view name);

// value is name(arguments)
bool apply_test(Runtime& runtime, std::string_view name, const Value& value,
                const Arguments& arguments);

}  // namespace pagedinfer::jinja
