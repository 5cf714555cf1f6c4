#include "text/chat/chat_families.h"

namespace pagedinfer {
namespace {

constexpr const char* kRolesAlternate =
    "After the optional system message, conversation roles must alternate "
    "user/assistant/user/assistant/...";
constexpr const char* kOtherRole =
    "Only user and assistant roles are supported, with the exception of an initial optional "
    "system message!";
constexpr const char* kToolCallId = "Tool call IDs should be alphanumeric strings with length 9!";

bool is_tool(const ChatMessage& message) {
  return message.role == "tool" || message.role == "tool_results";
}

bool roles_alternate(std::span<const ChatMessage> messages) {
  int index = 0;
  for (const ChatMessage& message : messages) {
    if (is_tool(message)) continue;
    if ((message.role == "user") != (index++ % 2 == 0)) return false;
  }
  return true;
}

int num_characters(std::string_view text) {
  int count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

}  // namespace

// Puts the system message at the beginning of the last message, if that is the user's.
RenderedChat render_mistral_nemo(const Chat& chat, const ChatWords& words) {
  std::span<const ChatMessage> messages = chat.messages;
  std::string system;
  if (messages.front().role == "system") {
    system = messages.front().content + "\n\n";
    messages = messages.subspan(1);
  }
  if (!roles_alternate(messages)) return {.refusal = kRolesAlternate};
  std::string text = words.bos;
  for (const ChatMessage& message : messages) {
    if (message.role == "user") {
      text.append("[INST]").append(&message == &messages.back() ? system : "");
      text.append(message.content).append("[/INST]");
    } else if (message.role == "assistant") {
      text.append(message.content).append(words.eos);
    } else if (is_tool(message)) {
      const std::string id = message.tool_call_id.value_or("");
      if (num_characters(id) != 9) return {.refusal = kToolCallId};
      text.append("[TOOL_RESULTS]{\"content\": ").append(message.content);
      text.append(", \"call_id\": \"").append(id).append("\"}[/TOOL_RESULTS]");
    } else {
      return {.refusal = kOtherRole};
    }
  }
  return {text};
}

}  // namespace pagedinfer
