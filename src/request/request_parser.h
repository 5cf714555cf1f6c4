#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/chat.h"
#include "core/request.h"

namespace pagedinfer {

// A request as its line says it: a conversation, a prompt in words or, without both, token ids.
struct RequestDraft {
  RecordHead head = {};
  std::optional<std::string> prompt = {};
  bool has_messages = false;
  Chat chat = {};  // its settings may be there without messages
  std::vector<TokenId> prompt_token_ids = {};
  std::optional<int> truncate_prompt_tokens = {};  // the last ones stay; -1: as many as fit
  std::optional<bool> add_special_tokens = {};     // around the prompt; nothing: as is usual
  SamplingParams sampling = {};
};

// An unknown key, and the known one that it resembles.
struct KeyHint {
  std::string key, similar;
};

// A line's request, or the reason why there is none; then `request.head` is filled in as far as
// the line could be read.
struct ParsedLine {
  RequestDraft request = {};
  RequestError error = {};  // without a code if all is well
  std::vector<KeyHint> hints = {};

  bool failed() const { return !error.code.empty(); }
};

// Whether a prompt may stand under this key: not under one that says something else.
bool may_name_prompt(std::string_view key);

// Lines of JSON to requests. Any bytes give exactly one result; nothing is thrown. The codes:
//
//   line_too_long     longer than kMaxLineBytes
//   invalid_utf8      not UTF-8
//   invalid_json      not JSON, nested deeper than 1,024 levels, a lone surrogate, or a number
//                     that neither 64 bits nor a double hold
//   not_an_object     JSON, but no object
//   missing_prompt    neither prompt nor prompt_token_ids nor messages
//   ambiguous_prompt  more than one of them
//   unsupported       a known key whose value asks for what this version cannot do
//   unknown_key       a key that nobody knows, where that is an error
//   invalid_value     a value of the wrong type or out of range
//
// Knows nothing of files, tokenizers or models.
class RequestParser {
 public:
  // `defaults` is what a line does not say. The prompt of a line that is not of the OpenAI form
  // stands under `prompt_field`; then a key "prompt" is one that nobody knows. With `strict` such
  // a key is an error. REQUIRES: may_name_prompt(prompt_field)
  explicit RequestParser(SamplingParams defaults, std::string prompt_field = "prompt",
                         bool strict = false);
  ~RequestParser();

  // REQUIRES: kLinePadding readable bytes follow `text`. `index` and `line` go into the head.
  ParsedLine parse(std::string_view text, int64_t index, int64_t line);

  // The keys that were ignored because nobody knows them, and how often that was. After the
  // first hundred the rest counts as "(other keys)".
  using UnknownKeys = std::map<std::string, int64_t, std::less<>>;
  const UnknownKeys& unknown_keys() const;
  // The same, and begins anew.
  UnknownKeys take_unknown_keys();
  // Adds what was counted in later lines.
  static void add(UnknownKeys& keys, const UnknownKeys& later);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pagedinfer
