#pragma once

#include "jinja/syntax_tree.h"

namespace pagedinfer::jinja {

// Finds the variable of each name, and what the variables of a scope begin with. In a template this
// is decided before it runs: a name that a loop's body assigns to is a variable of that body, which
// begins each time as what the name is outside. Throws TemplateError where a tag assigns to `loop`
// in a loop, and where a filter or a test is unknown outside of conditions.
void resolve_names(SyntaxTree& tree);

}  // namespace pagedinfer::jinja
