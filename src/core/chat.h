// A conversation, as a line of the input gives it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pagedinfer {

struct ChatMessage {
  std::string role = {};
  std::string content = {};
  // The content once more where it was a list of texts; `content` then is these, a newline
  // between each two.
  std::vector<std::string> parts = {};
  std::optional<std::string> reasoning = {};     // what an assistant thought before it spoke
  std::optional<std::string> tool_call_id = {};  // what a tool's message answers
};

struct Chat {
  std::vector<ChatMessage> messages = {};
  std::optional<bool> enable_thinking = {};  // nothing: as the template has it
  bool add_generation_prompt = true;         // end where the assistant begins to speak
};

}  // namespace pagedinfer
