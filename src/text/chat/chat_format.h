#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/chat/chat_template.h"

namespace pagedinfer {

// The hash by which the text of a Jinja template is known. As to Jinja, CRLF and CR are LF, and
// one newline at the end is not part of the text; every other character counts.
uint64_t chat_fingerprint(std::string_view template_text);

// The template whose text that is; null if it is not one of those that we know to render the same
// for every conversation without tools.
const ChatTemplate* recognize_chat_template(std::string_view template_text);

// How conversations become prompts of one model.
struct ChatFormat {
  const ChatTemplate* known = nullptr;  // null: there is none
  std::string problem = {};             // why; a sentence that names the flag, and no path
  ChatWords words = {};
};

// The name of its template, or "none".
std::string_view chat_template_name(const ChatFormat& format);

// The template `asked` for by name and, where that is "", the one that the model directory has in
// its files: chat_template.jinja, else "chat_template" of tokenizer_config.json (of several the
// one named "default"), else that of chat_template.json. "none" is none. The tokens are those of
// tokenizer_config.json or special_tokens_map.json.
// REQUIRES: find_chat_template() knows `asked`, or it is "" or "none". Throws Error for files that
// cannot be read.
ChatFormat read_chat_format(const std::string& model_dir, std::string_view asked,
                            const std::string& date);

}  // namespace pagedinfer
