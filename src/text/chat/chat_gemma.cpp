#include "text/chat/chat_families.h"
#include "text/chat/chat_strings.h"

namespace pagedinfer {
namespace {

constexpr const char* kRolesAlternate =
    "Conversation roles must alternate user/assistant/user/assistant/...";

std::string trimmed(const ChatMessage& message) {
  if (message.parts.empty()) return std::string(strip(message.content));
  std::string text;
  for (const std::string& part : message.parts) text += strip(part);
  return text;
}

// Puts `prefix` before the first message's text.
RenderedChat render_turns(std::span<const ChatMessage> messages, std::string_view prefix,
                          const Chat& chat, std::string text) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string_view role = messages[i].role;
    if ((role == "user") != (i % 2 == 0)) return {.refusal = kRolesAlternate};
    text.append("<start_of_turn>").append(role == "assistant" ? "model" : role).append("\n");
    if (i == 0) text.append(prefix);
    text.append(trimmed(messages[i])).append("<end_of_turn>\n");
  }
  if (chat.add_generation_prompt) text.append("<start_of_turn>model\n");
  return {text};
}

}  // namespace

RenderedChat render_gemma2(const Chat& chat, const ChatWords& words) {
  if (chat.messages.front().role == "system") return {.refusal = "System role not supported"};
  return render_turns(chat.messages, "", chat, words.bos);
}

// Puts the system message at the beginning of the first message.
RenderedChat render_gemma3(const Chat& chat, const ChatWords& words) {
  const ChatMessage& first = chat.messages.front();
  if (first.role != "system") return render_turns(chat.messages, "", chat, words.bos);
  if (first.parts.size() > 1) {
    return {.refusal = "the template takes one text of a system message, not a list of several"};
  }
  return render_turns(std::span(chat.messages).subspan(1), first.content + "\n\n", chat, words.bos);
}

}  // namespace pagedinfer
