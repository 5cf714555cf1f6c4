#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/chat.h"

namespace pagedinfer {

// What a template takes from elsewhere.
struct ChatWords {
  std::string bos = {}, eos = {};  // the texts of the tokenizer's tokens; "" if it has none
  std::string date = {};           // of today, as in "26 Jul 2024"
};

// A conversation as the prompt of a model, or the reason why the template has none for it.
struct RenderedChat {
  std::string text = {};
  std::string refusal = {};  // "" if all is well

  bool refused() const { return !refusal.empty(); }
};

// The form in which a model was taught to read conversations. Each is what Hugging Face
// transformers renders with the template of that name, byte for byte, for conversations without
// tools.
struct ChatTemplate {
  std::string_view name;
  // The token that ends a turn; "" = the tokenizer's end of sequence.
  std::string_view end_of_turn;
  bool thinks;    // Chat::enable_thinking has a meaning
  bool adds_bos;  // the text begins with ChatWords::bos
  // Whether messages of a role become part of the text.
  bool (*shows)(std::string_view role);
  // REQUIRES: chat.messages is not empty.
  RenderedChat (*render)(const Chat& chat, const ChatWords& words);
};

// Every template there is.
std::span<const ChatTemplate> chat_templates();
// Null if there is none of that name.
const ChatTemplate* find_chat_template(std::string_view name);
// As a message lists them: "chatml, gemma2, ...".
std::string chat_template_names();

}  // namespace pagedinfer
