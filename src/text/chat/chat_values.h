// The messages that a chat template is given, as transformers makes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/chat.h"
#include "jinja/value.h"

namespace pagedinfer {

// The names of a message's reasoning, the one that counts first.
constexpr std::string_view kReasoning[] = {"reasoning_content", "thinking", "reasoning"};

// The messages of a conversation, with the message `system` in front if none is the system's.
// Fields that are null are left out, and reasoning stands under each of its names. People wrote the
// texts. REQUIRES: chat.messages is a list of objects. Throws jinja::TemplateError if it is nested
// too deep.
std::vector<jinja::Value> message_values(const Chat& chat,
                                         const std::optional<std::string>& system);

}  // namespace pagedinfer
