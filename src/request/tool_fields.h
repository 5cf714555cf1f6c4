#pragma once

#include "request/request_fields.h"
#include "request/request_parser.h"

namespace pagedinfer {

// Reads tools, tool_choice and parallel_tool_calls. Where a call is forced, its form becomes the
// form of the answer. Whether the schemas are good is not checked. REQUIRES: read_form() came
// before.
void read_tools(RequestFields& fields, RequestDraft& draft, bool has_own_form);

}  // namespace pagedinfer
