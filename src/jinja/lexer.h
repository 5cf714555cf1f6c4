#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pagedinfer::jinja {

enum class TokenKind {
  kData,  // text between tags
  kPrintBegin,
  kPrintEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,  // of the template
};

struct Token {
  TokenKind kind;
  std::string text;  // of a string, what its escapes stand for; of numbers, without underscores
  int line;
};

// The tokens of a template, white space around tags removed as `trim_blocks`, `lstrip_blocks` and
// the signs at the tags say. The last one is kEnd. Throws TemplateError.
std::vector<Token> lex(std::string_view source);

}  // namespace pagedinfer::jinja
