// A conversation as an input line gives it, before a chat template turns it into text.
#pragma once

#include <string>

namespace pagedinfer {

// A field is "" if the line does not have it. Values are JSON text, which is passed to templates
// unchanged.
struct Chat {
  std::string messages = {};               // a list of objects with roles
  std::string tools = {}, documents = {};  // lists of objects
  std::string template_arguments = {};     // an object: variables by their names
  // Plain text, not JSON: how much to think ("none" turns it off) and how much to say.
  std::string reasoning_effort = {}, verbosity = {};
  bool add_generation_prompt = true;  // end the prompt with the assistant's header
  // The field of the last message that the completion continues; "" = none. If set, the prompt does
  // not end with a header.
  std::string continued_field = {};
};

}  // namespace pagedinfer
