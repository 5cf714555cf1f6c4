#pragma once

#include "request/request_fields.h"
#include "request/request_parser.h"

namespace pagedinfer {

// Reads the prompts or messages of an object, how they are turned into tokens, and which of their
// parts the record repeats.
void read_prompt(RequestFields& fields, RequestDraft& draft, PromptForm form);

}  // namespace pagedinfer
