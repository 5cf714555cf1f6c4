#include "text/chat/thought_marks.h"

namespace pagedinfer {
namespace {

bool is_space(std::string_view bytes) {
  return !bytes.empty() && bytes.find_first_not_of(" \t\r\n") == bytes.npos;
}

}  // namespace

std::optional<TokenId> added_token(const Tokenizer& tokenizer, std::string_view spelling) {
  const auto added = tokenizer.added_prefix(spelling);
  if (!added || added->size != spelling.size()) return std::nullopt;
  return added->id;
}

std::optional<ThoughtMarks> thought_marks(const Tokenizer& tokenizer) {
  const std::optional<TokenId> begin = added_token(tokenizer, "<think>");
  const std::optional<TokenId> end = added_token(tokenizer, "</think>");
  if (!begin || !end) return std::nullopt;
  return ThoughtMarks{*begin, *end};
}

bool template_thinks(std::string_view template_text) {
  return template_text.find("enable_thinking") != template_text.npos;
}

bool begins_with_thoughts(const ThoughtMarks& marks, const Tokenizer& tokenizer,
                          std::span<const TokenId> prompt, bool template_may_think) {
  while (!prompt.empty()) {
    const TokenId last = prompt.back();
    if (last == marks.begin) return true;
    if (last == marks.end) return false;
    if (!is_space(tokenizer.token_bytes(last))) break;
    prompt = prompt.first(prompt.size() - 1);
  }
  return template_may_think;
}

}  // namespace pagedinfer
