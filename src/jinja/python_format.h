#pragma once

#include "jinja/runtime.h"

namespace pagedinfer::jinja {

// format % values.
Value format_percent(Runtime& runtime, const Value& format, const Value& values);

// format.format(...).
Value format_braces(Runtime& runtime, const Value& format, const Arguments& arguments);

// time.strftime(format) in the C locale. What a code with a mark writes is marked.
MarkedText format_time(const MarkedText& format, const DateTime& now, Budget& budget);

}  // namespace pagedinfer::jinja
