#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "core/request.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// The tokens between which a model thinks before it answers.
struct ThoughtMarks {
  TokenId begin, end;
};

// The token of an added token's exact spelling.
std::optional<TokenId> added_token(const Tokenizer& tokenizer, std::string_view spelling);

// The marks of a tokenizer; nullopt if it has none.
std::optional<ThoughtMarks> thought_marks(const Tokenizer& tokenizer);

// Whether a template has a variable by which a line turns thoughts on or off.
bool template_thinks(std::string_view template_text);

// Whether the answer to the prompt of a conversation begins with thoughts, or amid them: the prompt
// ends with the mark that begins them, or the template may ask for them and has not ended them
// there.
bool begins_with_thoughts(const ThoughtMarks& marks, const Tokenizer& tokenizer,
                          std::span<const TokenId> prompt, bool template_may_think);

}  // namespace pagedinfer
