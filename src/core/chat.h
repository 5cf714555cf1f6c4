// A conversation as an input line gives it, before a chat template turns it into text.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pagedinfer {

struct ChatMessage {
  std::string role = {};
  std::string content = {};
  // The texts of a content that was given as a list; `content` joins them with newlines.
  std::vector<std::string> parts = {};
  std::optional<std::string> reasoning = {};     // of an assistant, before its answer
  std::optional<std::string> tool_call_id = {};  // of a tool: the call that it answers
};

struct Chat {
  std::vector<ChatMessage> messages = {};
  std::optional<bool> enable_thinking = {};  // unset: the default of the template
  bool add_generation_prompt = true;         // end the prompt with the assistant's header
};

}  // namespace pagedinfer
