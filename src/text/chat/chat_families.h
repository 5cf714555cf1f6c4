// The render functions of the templates, for the table in chat_template.cpp.
#pragma once

#include "text/chat/chat_template.h"

namespace pagedinfer {

RenderedChat render_chatml(const Chat& chat, const ChatWords& words);
RenderedChat render_gemma2(const Chat& chat, const ChatWords& words);
RenderedChat render_gemma3(const Chat& chat, const ChatWords& words);
RenderedChat render_llama3(const Chat& chat, const ChatWords& words);
RenderedChat render_mistral_nemo(const Chat& chat, const ChatWords& words);
RenderedChat render_qwen2_5(const Chat& chat, const ChatWords& words);
RenderedChat render_qwen3(const Chat& chat, const ChatWords& words);

bool qwen_shows(std::string_view role);

}  // namespace pagedinfer
