// Values as text: Python's str(), repr(), json.dumps() and ways to format.
#pragma once

#include <string>
#include <string_view>

#include "jinja/marked_text.h"
#include "jinja/runtime.h"
#include "jinja/value.h"

namespace pagedinfer::jinja {

// str(value). Marks stay on what comes from marked strings. Throws TemplateError for values whose
// text says where they are in memory.
MarkedText to_text(const Value& value, Budget& budget);
// repr(value), appended.
void append_repr(TextBuilder& out, const Value& value, Budget& budget);

struct JsonOptions {
  bool ensure_ascii = false, sort_keys = false;
  bool indented = false;
  std::string indent = {};  // of one level
  std::string item_separator = ", ", key_separator = ": ";
};
// json.dumps(value).
MarkedText to_json(const Value& value, const JsonOptions& options, Budget& budget);

// format % values.
Value format_percent(Runtime& runtime, const Value& format, const Value& values);

// format.format(...).
Value format_braces(Runtime& runtime, const Value& format, const Arguments& arguments);

// time.strftime(format) in the C locale. What a code with a mark writes is marked.
MarkedText format_time(const MarkedText& format, const DateTime& now, Budget& budget);

}  // namespace pagedinfer::jinja
