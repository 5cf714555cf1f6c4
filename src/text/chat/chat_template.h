#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/chat.h"

namespace pagedinfer {

// Texts that a template inserts besides the messages.
struct ChatWords {
  std::string bos = {}, eos = {};  // the tokenizer's tokens; "" if it has none
  std::string date = {};           // today's, such as "26 Jul 2024"
};

// The prompt of a conversation, or why the template refuses the conversation.
struct RenderedChat {
  std::string text = {};
  std::string refusal = {};  // "" = not refused

  bool refused() const { return !refusal.empty(); }
};

// A chat template. Renders conversations without tools byte for byte as Hugging Face transformers
// does with the template of that name.
struct ChatTemplate {
  std::string_view name;
  // The token that ends a turn; "" = the tokenizer's end of sequence.
  std::string_view end_of_turn;
  bool thinks;    // Chat::enable_thinking has an effect
  bool adds_bos;  // the text begins with ChatWords::bos
  // Whether the text includes messages of this role.
  bool (*shows)(std::string_view role);
  // REQUIRES: chat.messages is not empty.
  RenderedChat (*render)(const Chat& chat, const ChatWords& words);
};

// All templates.
std::span<const ChatTemplate> chat_templates();
// Null if no template has this name.
const ChatTemplate* find_chat_template(std::string_view name);
// All names for a message: "chatml, gemma2, ...".
std::string chat_template_names();

}  // namespace pagedinfer
