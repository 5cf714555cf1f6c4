#pragma once

#include <string_view>

#include "jinja/runtime.h"

namespace pagedinfer::jinja {

// Whether jinja2 has a filter of that name. Some of them fail when they are used: what they do is
// not supported.
bool is_filter(std::string_view name);

// value | name(arguments)
Value apply_filter(Runtime& runtime, std::string_view name, const Value& value,
                   Arguments arguments);

}  // namespace pagedinfer::jinja
