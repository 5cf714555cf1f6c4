// Lines with conversations to prompts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/request.h"
#include "request/request_parser.h"
#include "settings/config.h"
#include "text/chat/chat_format.h"
#include "text/chat/render_chat.h"
#include "text/chat/thought_marks.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// What a run does with conversations.
struct ChatSettings {
  ChatFormat format = {};
  bool wrap_prompts = false;               // a prompt in words is a message of the user
  std::optional<std::string> system = {};  // the system's message where a line has none
  bool escape_special = false;  // of lines that do not say: what people wrote has no special tokens
  // Tokens with which the model ends its turn: a conversation's completion ends there even if the
  // model's files do not count them among the ends. Ascending.
  std::vector<TokenId> ends_of_turn = {};
  std::optional<ThoughtMarks> thoughts = {};
};

// The settings of a run. The tokenizer may be null. Throws Error if a file cannot be read.
ChatSettings make_chat_settings(const Config& config, const std::string& model_dir,
                                const Tokenizer* tokenizer);

// Throws Error if all prompts are to be conversations, and there is no template or no tokenizer.
void check_chat(const ChatSettings& settings, const std::string& model_dir,
                const Tokenizer* tokenizer);

// The tokens that end a turn: the tokenizer's eos_token, and what a probe of the template finds.
// None if there is no template or the tokenizer, which may be null, has no such token.
std::vector<TokenId> find_ends_of_turn(const ChatFormat& format, const Tokenizer* tokenizer);

// Whether the line is a conversation, by itself or because prompts are wrapped.
bool is_chat(const RequestDraft& draft, const ChatSettings& settings);

// The conversation as the template writes it: the tokenizer puts nothing around it. The codes:
//
//   empty_prompt      there are no messages
//   no_chat_template  there is no template, or none is wanted
//   invalid_messages  the template refuses the conversation, fails or needs too much
//
// REQUIRES: is_chat(draft, settings)
RenderedChat make_chat_prompt(const RequestDraft& draft, const ChatSettings& settings);

}  // namespace pagedinfer
