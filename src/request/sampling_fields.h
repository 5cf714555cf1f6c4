#pragma once

#include "request/request_fields.h"
#include "request/request_parser.h"

namespace pagedinfer {

// Changes only the sampling settings that the object gives. REQUIRES: read_prompt() came before.
void read_sampling(RequestFields& fields, RequestDraft& draft, PromptForm form);

}  // namespace pagedinfer
