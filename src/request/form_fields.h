#pragma once

#include "core/answer_form.h"
#include "request/request_fields.h"

namespace pagedinfer {

// Reads the form of the answer, if the line asks for one, to `form`: response_format of OpenAI;
// guided_json, guided_regex, guided_choice, guided_grammar and structured_outputs of vLLM. Does not
// check whether the form itself is valid. Returns whether the line names a form, or asks explicitly
// for none.
bool read_form(RequestFields& fields, AnswerForm& form);

}  // namespace pagedinfer
