// Finds calls of functions in the answers of a model.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/request.h"
#include "core/tool_use.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// What an answer says, and then calls.
struct SpokenCalls {
  std::string content = {};  // the text before the first call
  std::vector<ToolCall> calls = {};
};

// The calls in an answer's tokens, without ids; nullopt if there is none, or if one is cut off or
// breaks its format. A forced call is the whole answer after the thoughts. Other calls begin with
// one of the marks that models are trained to use, if the tokenizer has the mark as a token: a
// spelling of the mark in other tokens is text. May be called from several threads at once.
std::optional<SpokenCalls> find_calls(const ToolUse& tools, const Tokenizer& tokenizer,
                                      std::span<const TokenId> tokens);

}  // namespace pagedinfer
