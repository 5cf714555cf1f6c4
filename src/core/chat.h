// A conversation as an input line gives it, before a chat template turns it into text.
#pragma once

#include <string>

namespace pagedinfer {

// "" where the line has none. Values are JSON text, which templates are given as it is.
struct Chat {
  std::string messages = {};               // a list of objects with roles
  std::string tools = {}, documents = {};  // lists of objects
  std::string template_arguments = {};     // an object: variables by their names
  // No JSON: how much to think ("none" is not at all) and how much to say.
  std::string reasoning_effort = {}, verbosity = {};
  bool add_generation_prompt = true;  // end the prompt with the assistant's header
  // The field of the last message that the completion goes on with; "" = none. Then no header is
  // added.
  std::string continued_field = {};
};

}  // namespace pagedinfer
