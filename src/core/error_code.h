// The codes of error records. A test checks docs/records.md against this list.
#pragma once

#include <concepts>
#include <string_view>

namespace pagedinfer {

struct ErrorCodeRow {
  std::string_view name;
  std::string_view meaning;  // continues a sentence that begins with "the line"
};

inline constexpr ErrorCodeRow kErrorCodes[] = {
    {"invalid_json",
     "is not JSON; or is nested deeper than 1,024 levels, has a lone surrogate, or a number beyond "
     "64 bits and a double"},
    {"invalid_utf8", "is not UTF-8"},
    {"invalid_row",
     "is a row of CSV or TSV with more or fewer cells than the header, with a quoted cell that has "
     "no end, or with text behind a quoted cell"},
    {"not_an_object", "is JSON, but no object"},
    {"line_too_long", "is longer than 128 MiB, or there is no memory to parse it"},
    {"missing_prompt", "has no prompt"},
    {"ambiguous_prompt", "has more than one kind of prompt"},
    {"empty_prompt", "has a prompt without text or tokens"},
    {"no_chat_template",
     "has messages, and the model has no chat template, or one that cannot be parsed"},
    {"invalid_messages",
     "has messages that the chat template refuses or fails at, for which it needs too much, or of "
     "which there is nothing to continue"},
    {"undefined_column",
     "is a row that lacks what `--prompt-template` or `--message-template` reads"},
    {"template_failed",
     "is a row that the template of a flag refuses or fails at, or for which it needs too much"},
    {"unknown_key", "has a key that is not known, and `--strict` is given"},
    {"invalid_value", "has a key of a wrong type or out of range; the message names it"},
    {"unsupported",
     "asks for what this version cannot do: images, tools that are no functions, ..."},
    {"unsupported_schema",
     "asks for an answer, or forces the call of a function, by a JSON schema with a keyword, or a "
     "combination of keywords, that is not enforced; the message gives its path"},
    {"invalid_form", "asks for an answer in a form that is wrong or beyond the limits"},
    {"form_impossible",
     "asks for an answer in a form in which no token that may be drawn goes on; `error.text` is "
     "the text so far"},
    {"unknown_token_id",
     "has a token id outside the vocabulary: in the prompt, `logit_bias`, `allowed_token_ids` or "
     "`stop_token_ids`"},
    {"no_tokenizer",
     "has text (a prompt, messages or stop strings), and the model directory has no tokenizer"},
    {"tokenization_failed",
     "has text that the tokenizer's pattern cannot cut into words in reasonable time"},
    {"prompt_too_long", "has a prompt of `--max-model-len` tokens or more"},
    {"exceeds_cache", "could never fit into the KV cache, even alone"},
    {"step_failed", "was in a step that failed twice"},
    {"no_finite_logits", "met logits of which none is a finite number"},
};

// The name of a row of kErrorCodes, or no error. Any other name does not compile.
class ErrorCode {
 public:
  constexpr ErrorCode() = default;
  consteval ErrorCode(const char* name) : name_(find(name)) {
    if (name_.empty()) throw "no such error code";
  }

  constexpr std::string_view name() const { return name_; }
  constexpr bool empty() const { return name_.empty(); }
  friend constexpr bool operator==(const ErrorCode& code, std::string_view name) {
    return code.name_ == name;
  }
  template <std::same_as<ErrorCode> Code>  // without the template a text would fit both operators
  friend constexpr bool operator==(const Code& a, const Code& b) {
    return a.name_ == b.name_;
  }
  friend constexpr bool operator<(const ErrorCode& a, const ErrorCode& b) {
    return a.name_ < b.name_;
  }

 private:
  static constexpr std::string_view find(std::string_view name) {
    for (const ErrorCodeRow& row : kErrorCodes) {
      if (row.name == name) return row.name;
    }
    return {};
  }

  std::string_view name_ = {};  // of a row
};

}  // namespace pagedinfer
