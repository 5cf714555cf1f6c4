// JSON schemas in the library's own types. Included by this folder only.
#pragma once

#include <xgrammar/xgrammar.h>

#include <string>

#include "grammar/schema_check.h"

namespace pagedinfer {

// `schema` is RewrittenSchema::text, or another one that the library keeps to. Compact, or with
// some whitespace. The library warns of what it drops, and throws std::exception.
xgrammar::Grammar grammar_of_schema(const std::string& schema, bool whitespace);

// What the library warns of or refuses, with the path of the innermost schema that it is about; ""
// if no schema within `schema` causes it. REQUIRES: no LibraryMessages lives on this thread.
std::string fault_of_schema(const RewrittenSchema& schema, bool whitespace);

}  // namespace pagedinfer
