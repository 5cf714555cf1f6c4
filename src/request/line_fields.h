// The readers of the keys of a line, a group of keys each. The error is kept by RequestFields.
#pragma once

#include "request/request_fields.h"

namespace pagedinfer {

// Reads the prompts or messages of an object, how they are turned into tokens, and which of their
// parts the record repeats.
void read_prompt(RequestFields& fields, RequestDraft& draft, PromptForm form);

// Reads the conversation of an object. REQUIRES: fields.has(key("messages"))
void read_messages(RequestFields& fields, Chat& chat);

// Reads the template's settings, which is everything it gets besides messages.
void read_template_settings(RequestFields& fields, Chat& chat);

// Changes only the sampling settings that the object gives. REQUIRES: read_prompt() came before.
void read_sampling(RequestFields& fields, RequestDraft& draft, PromptForm form);

// Reads the form of the answer, if the line asks for one, to `form`: response_format of OpenAI;
// guided_json, guided_regex, guided_choice, guided_grammar and structured_outputs of vLLM. Does not
// check whether the form itself is valid. Returns whether the line names a form, or asks explicitly
// for none.
bool read_form(RequestFields& fields, AnswerForm& form);

// Reads tools, tool_choice and parallel_tool_calls. If a call is forced, its form becomes the form
// of the answer. Does not check whether the schemas are valid. REQUIRES: read_form() was called
// before.
void read_tools(RequestFields& fields, RequestDraft& draft, bool has_own_form);

// Refuses keys whose values ask for what this version cannot do.
void check_supported(RequestFields& fields);

}  // namespace pagedinfer
