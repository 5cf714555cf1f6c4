// Values as text: Python's str(), repr() and json.dumps().
#pragma once

#include <string>
#include <string_view>

#include "jinja/text_builder.h"
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

}  // namespace pagedinfer::jinja
