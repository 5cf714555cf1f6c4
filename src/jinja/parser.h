#pragma once

#include <string_view>

#include "jinja/syntax_tree.h"

namespace pagedinfer::jinja {

// Parses a template. Names are not yet resolved. Throws TemplateError, also where the template is
// too long or nested too deep.
SyntaxTree parse(std::string_view source);

}  // namespace pagedinfer::jinja
