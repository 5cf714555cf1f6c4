#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jinja/runtime.h"
#include "jinja/syntax_tree.h"

namespace pagedinfer::jinja {

struct Rendered {
  std::string text = {};
  std::vector<Span> from_values = {};  // the bytes that come from marked strings
};

// A chat template: Jinja as transformers sets it up, in a sandbox that changes no value. Parsed
// once; several threads may render it at a time. docs/chat_templates.md says what it knows.
class Template {
 public:
  // Throws TemplateError, with a line, if `source` is no template or too large.
  static Template parse(std::string_view source);

  // The text with these variables, at the time `now`. Throws TemplateError, with a line, where
  // jinja2 fails, where the template uses what is not supported, and beyond the limits.
  Rendered render(const Dict& variables, const DateTime& now, const Limits& limits = {},
                  Undefined undefined = Undefined::kEmpty) const;

  // Whether the template reads a variable of this name that render() is given.
  bool reads(const std::string& name) const { return tree_.context_names.contains(name); }

 private:
  SyntaxTree tree_ = {};
};

}  // namespace pagedinfer::jinja
