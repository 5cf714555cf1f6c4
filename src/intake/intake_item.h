// Turns a parsed line into a PreparedLine or an error Completion.
#pragma once

#include <cstdint>
#include <string>

#include "core/request.h"
#include "engine/pull.h"
#include "intake/chat_prompt.h"
#include "model/spec.h"
#include "request/line_arrivals.h"
#include "request/request_parser.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// The memory of an item's prompts, texts and lists, converted to a number of prompt tokens. Lists
// that its requests share count once.
int64_t memory_in_tokens(const IntakeItem& item);

struct PromptLimits {
  int vocab = 0;                                // token ids are below it
  int max_model_len = 0;                        // a prompt must be shorter
  int64_t max_prompt_bytes = int64_t{1} << 40;  // longer prompts are refused before tokenizing
  const ModelSpec* spec = nullptr;              // if set: a request must not ban all its tokens
  std::string no_forms = {};                    // if set: why no answer is kept in a form
};

// An upper bound of the bytes of a text with fewer than max_model_len tokens: as if each were the
// longest token, times four because a tokenizer's normalizer may shorten the text.
int64_t max_prompt_bytes(const Tokenizer& tokenizer, int max_model_len);

// Tokenizes the line's prompts and checks them against the limits. `tokenizer` may be null: then a
// prompt must be token ids. May be called from several threads at once.
IntakeItem prepare_line(ParsedLine line, const Tokenizer* tokenizer, const ChatSettings& chat,
                        const PromptLimits& limits);

// The error that the line has before its first prompt is tokenized, as prepare_line() finds it.
Result<> try_to_render(ParsedLine line, const Tokenizer* tokenizer, const ChatSettings& chat);

// What the parser cannot judge: the line fails if its arrival is not allowed. Counts in `keys`, as
// unknown keys, the line's settings for a chat template that no template reads; with `strict` such
// a line fails too.
void check_line(ParsedLine& line, const LineArrival& arrival, const ChatSettings& chat, bool strict,
                RequestParser::UnknownKeys& keys);

}  // namespace pagedinfer
