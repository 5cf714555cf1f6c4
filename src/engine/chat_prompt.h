// Lines with conversations to prompts.
#pragma once

#include <optional>
#include <string>

#include "core/request.h"
#include "request/request_parser.h"
#include "settings/config.h"
#include "text/chat/chat_format.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// What a run does with conversations.
struct ChatSettings {
  ChatFormat format = {};
  bool wrap_prompts = false;               // a prompt in words is a message of the user
  std::optional<std::string> system = {};  // the system's message where a line has none
  // The token with which the model ends its turn: a conversation's completion ends there even if
  // the model's files do not count it among the ends. Nothing: the vocabulary has none.
  std::optional<TokenId> end_of_turn = {};
};

// The settings of a run. The tokenizer may be null. Throws Error if a file cannot be read.
ChatSettings make_chat_settings(const Config& config, const std::string& model_dir,
                                const Tokenizer* tokenizer);

// Throws Error if all prompts are to be conversations, and there is no template or no tokenizer.
void check_chat(const ChatSettings& settings, const std::string& model_dir,
                const Tokenizer* tokenizer);

// The token that ends a turn; nothing if there is no template or the tokenizer, which may be
// null, has no such token.
std::optional<TokenId> find_end_of_turn(const ChatFormat& format, const Tokenizer* tokenizer);

// Whether the line is a conversation, by itself or because prompts are wrapped.
bool is_chat(const RequestDraft& draft, const ChatSettings& settings);

// The text of a prompt, or the reason why there is none.
struct ChatPrompt {
  std::string text = {};
  AddBos add_bos = AddBos::kNo;
  RequestError error = {};  // without a code if all is well
};

// The conversation as the template writes it. A beginning-of-sequence token that the template
// writes is in the text; the tokenizer adds none. The codes:
//
//   empty_prompt      there are no messages
//   no_chat_template  there is no template that we know, or none is wanted
//   invalid_messages  the template refuses the conversation, or leaves a message out
//   unsupported       thinking is asked for, and the template has no such switch
//
// REQUIRES: is_chat(draft, settings)
ChatPrompt make_chat_prompt(const RequestDraft& draft, const ChatSettings& settings);

}  // namespace pagedinfer
