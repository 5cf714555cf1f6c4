#pragma once

#include "jinja/syntax_tree.h"

namespace pagedinfer::jinja {

// Finds the variable of each name, and the first values of the variables of a scope. In a template
// this is decided before it runs: a name that a loop's body assigns to is a variable of that body,
// which begins each time with the value of the name outside. Throws TemplateError if a tag assigns
// to `loop` in a loop, or if a filter or test outside of conditions is unknown.
void resolve_names(SyntaxTree& tree);

}  // namespace pagedinfer::jinja
