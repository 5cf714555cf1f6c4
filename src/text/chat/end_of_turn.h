#pragma once

#include <optional>

#include "core/request.h"
#include "text/chat/chat_format.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// The added token that the template writes directly after the text of an assistant, in every turn,
// and never inside a turn. nullopt if there is no such token, or the template refuses a
// conversation of plain turns.
std::optional<TokenId> probe_end_of_turn(const ChatFormat& format, const Tokenizer& tokenizer);

}  // namespace pagedinfer
