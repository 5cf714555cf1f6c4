#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/chat/chat_template.h"

namespace pagedinfer {

// The hash that identifies the text of a Jinja template. As in Jinja, CRLF and CR count as LF, and
// one newline at the end is ignored.
uint64_t template_hash(std::string_view template_text);

// The template that renders every conversation without tools as this Jinja text does; null if the
// text is not a known one.
const ChatTemplate* recognize_chat_template(std::string_view template_text);

// The chat template of a model, or why it has none.
struct ChatFormat {
  const ChatTemplate* known = nullptr;  // null: conversations cannot be rendered
  std::string problem = {};             // why; a sentence that names the flag, but no path
  ChatWords words = {};
};

// The name of the format's template, or "none".
std::string_view chat_template_name(const ChatFormat& format);

// The template named `asked`, or if that is "", the template of the model directory:
// chat_template.jinja, else "chat_template" of tokenizer_config.json (of several the one named
// "default"), else that of chat_template.json. "none" gives no template. Reads the tokens from
// tokenizer_config.json or special_tokens_map.json. Throws Error if a file cannot be read.
// REQUIRES: find_chat_template() knows `asked`, or it is "" or "none".
ChatFormat read_chat_format(const std::string& model_dir, std::string_view asked,
                            const std::string& date);

}  // namespace pagedinfer
