#pragma once

#include "request/request_fields.h"
#include "request/request_parser.h"

namespace pagedinfer {

// Reads tools, tool_choice and parallel_tool_calls. If a call is forced, its form becomes the form
// of the answer. Does not check whether the schemas are valid. REQUIRES: read_form() was called
// before.
void read_tools(RequestFields& fields, RequestDraft& draft, bool has_own_form);

}  // namespace pagedinfer
