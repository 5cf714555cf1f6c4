#pragma once

#include "request/request_fields.h"
#include "request/request_parser.h"

namespace pagedinfer {

// Reads the prompts or messages of an object, what is to be made of them, and what is to be
// returned of them.
void read_prompt(RequestFields& fields, RequestDraft& draft, PromptForm form);

}  // namespace pagedinfer
