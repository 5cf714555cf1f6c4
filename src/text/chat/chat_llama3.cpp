#include "text/chat/chat_families.h"
#include "text/chat/chat_strings.h"

namespace pagedinfer {
namespace {

void begin_turn(std::string& text, std::string_view role) {
  text.append("<|start_header_id|>").append(role).append("<|end_header_id|>\n\n");
}

}  // namespace

// Llama 3.1 and later: always has a system turn, which states the date.
RenderedChat render_llama3(const Chat& chat, const ChatWords& words) {
  constexpr std::string_view kEnd = "<|eot_id|>";
  std::span<const ChatMessage> messages = chat.messages;
  std::string text = words.bos;
  begin_turn(text, "system");
  text.append("Cutting Knowledge Date: December 2023\nToday Date: ").append(words.date);
  text.append("\n\n");
  if (messages.front().role == "system") {
    text.append(strip(messages.front().content));
    messages = messages.subspan(1);
  }
  text.append(kEnd);
  for (const ChatMessage& message : messages) {
    const bool tool = message.role == "tool" || message.role == "ipython";
    begin_turn(text, tool ? "ipython" : message.role);
    if (tool) {
      text.append(python_json(message.content));
    } else {
      text.append(strip(message.content));
    }
    text.append(kEnd);
  }
  if (chat.add_generation_prompt) begin_turn(text, "assistant");
  return {text};
}

}  // namespace pagedinfer
