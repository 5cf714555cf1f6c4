// A line to what becomes of it.
#pragma once

#include <cstdint>
#include <variant>

#include "core/request.h"
#include "engine/chat_prompt.h"
#include "model/spec.h"
#include "request/request_parser.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// What becomes of one line: something to run, or an answer already (an error).
using IntakeItem = std::variant<Request, Completion>;

// The tokens of a prompt that is to run; of an answer none.
int64_t num_prompt_tokens(const IntakeItem& item);

struct PromptLimits {
  int vocab = 0;                                // token ids are below it
  int max_model_len = 0;                        // a prompt must be shorter
  int64_t max_prompt_bytes = int64_t{1} << 40;  // more are not even tokenized
  const ModelSpec* spec = nullptr;              // of whose tokens one must be left to draw
};

// How long a text can be that still has fewer than max_model_len tokens: every one as long as the
// longest there is, and four times as much where a tokenizer shortens text before it looks.
int64_t max_prompt_bytes(const Tokenizer& tokenizer, int max_model_len);

// Turns a parsed line into a request, or into the error that answers it. `tokenizer` may be
// null: then a prompt must be token ids. May be called from several threads at once.
IntakeItem make_request(ParsedLine line, const Tokenizer* tokenizer, const ChatSettings& chat,
                        const PromptLimits& limits);

}  // namespace pagedinfer
