// Turns lines with conversations, and rows of tables, into prompts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/request.h"
#include "request/request_parser.h"
#include "settings/config.h"
#include "text/chat/chat_format.h"
#include "text/chat/render_chat.h"
#include "text/chat/row_template.h"
#include "text/chat/thought_marks.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// How a run treats conversations and rows.
struct ChatSettings {
  ChatFormat format = {};
  std::optional<RowTemplate> rows = {};    // if set, each line is a row
  bool wrap_prompts = false;               // a text prompt becomes a user message
  std::optional<std::string> system = {};  // the system message of lines without one
  // Default of lines: special tokens in what people wrote are text. Of a row it is text in any
  // case; if this is set, what the row's template writes is text too.
  bool escape_special = false;
  // Tokens that end the model's turn, ascending. A conversation's completion ends with them even if
  // the model's files do not list them as end tokens.
  std::vector<TokenId> ends_of_turn = {};
  std::optional<ThoughtMarks> thoughts = {};
};

// The template of rows that a run was given. Throws Error if it cannot be read or parsed.
std::optional<RowTemplate> row_template_of(const Config& config);

// The settings of a run. The tokenizer may be null. Throws Error if a file cannot be read.
ChatSettings make_chat_settings(const Config& config, const ModelStore& model,
                                const Tokenizer* tokenizer);

// Throws Error if all prompts become conversations but the template or the tokenizer is missing.
void check_chat(const ChatSettings& settings, const ModelStore& model, const Tokenizer* tokenizer);

// The tokens that end a turn: the tokenizer's eos_token, and tokens that a probe of the template
// finds. Empty if there is no template, or if the tokenizer has no such token. The tokenizer may be
// null.
std::vector<TokenId> find_ends_of_turn(const ChatFormat& format, const Tokenizer* tokenizer);

// Whether the line is a conversation, either by itself or because prompts are wrapped.
bool is_chat(const RequestDraft& draft, const ChatSettings& settings);

// The text that templates make of a conversation or of a row. The tokenizer must add nothing around
// a conversation. Codes of errors, beside those of RowTemplate::render():
//
//   empty_prompt      there are no messages
//   no_chat_template  there is no template, or none is wanted
//   invalid_messages  the template refuses the conversation, fails or needs too much
//
// REQUIRES: is_chat(draft, settings), or the draft has a row.
Result<RenderedChat> make_prompt_text(const RequestDraft& draft, const ChatSettings& settings);

}  // namespace pagedinfer
