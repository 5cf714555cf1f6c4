#pragma once

#include "jinja/runtime.h"
#include "jinja/syntax_tree.h"

namespace pagedinfer::jinja {

// The text of a template with these variables. Throws TemplateError.
MarkedText evaluate(const SyntaxTree& tree, const Dict& variables, Runtime& runtime);

}  // namespace pagedinfer::jinja
