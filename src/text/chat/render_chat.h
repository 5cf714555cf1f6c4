#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/chat.h"
#include "core/request.h"
#include "text/chat/chat_format.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// The prompt of a conversation.
struct RenderedChat {
  std::string text = {};
  std::vector<TextRange> written = {};  // the parts that people wrote
  std::string_view template_text = {};  // of the template that wrote it
};

// A message of a conversation that is not JSON.
struct MessageText {
  std::string role = {};
  std::string text = {};
  std::vector<TextRange> written = {};  // the parts of the text that people wrote, ascending
};

// The names of what the conversation asks for, and its template has no variable for. Without a
// format there is no template.
std::vector<std::string_view> unread_settings(const ChatFormat* format, const Chat& chat);

// Renders byte for byte what Hugging Face transformers does. `system` is the text of the system's
// message where the conversation has none. May be called from several threads at once. The codes:
//
//   no_chat_template  there is no template for it
//   invalid_messages  the template refuses the conversation, fails, or needs too much; or there is
//                     nothing to continue
//
// REQUIRES: the conversation has messages.
Result<RenderedChat> render_chat(const ChatFormat& format, const Chat& chat,
                                 const std::optional<std::string>& system);
// The same with these messages in place of the conversation's.
Result<RenderedChat> render_chat(const ChatFormat& format, const Chat& chat,
                                 std::span<const MessageText> messages);

}  // namespace pagedinfer
