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
#include "request/input_lines.h"
#include "settings/config.h"

namespace pagedinfer {

// The keys of prompt and id in lines that are not of the OpenAI form.
struct KeyNames {
  std::string prompt = "prompt", id = "id";
};

inline const KeyNames kUsualNames = {};

// The keys of a line that its record repeats.
struct KeptKeys {
  bool all = false;
  std::vector<std::string> names = {};  // if not all

  bool any() const { return all || !names.empty(); }
};

// How a run reads its lines.
struct LineRules {
  // REQUIRES: the names differ, and may_stand_for() allows both.
  KeyNames names = {};
  bool strict = false;  // unknown keys are errors; else they are counted and ignored
  // Lines are rows of a table, for a template to make prompts of. All their keys are columns. Only
  // the id, if it is a string or an integer, and arrival_s have their meaning too.
  bool rows = false;
  KeptKeys keep = {};
};

LineRules line_rules(const Config& config);

// A prompt before tokenization.
struct PromptDraft {
  std::optional<std::string> text = {};
  std::vector<TokenId> token_ids = {};  // used if there is no text
};

// The request of a line before tokenization: it has messages, a prompt text, prompt token ids, or a
// row.
struct RequestDraft {
  RecordHead head = {};
  std::optional<std::string> row = {};  // a JSON object
  std::optional<std::string> prompt = {};
  bool has_messages = false;
  Chat chat = {};  // may have settings without messages
  std::vector<TokenId> prompt_token_ids = {};
  std::optional<int> truncate_prompt_tokens = {};  // keep so many last tokens; -1: as many as fit
  std::optional<bool> add_special_tokens = {};     // around the prompt; nullopt = the default
  std::optional<bool> escape_special = {};         // special tokens in what people wrote are text
  std::vector<PromptDraft> more = {};              // the line's prompts after the first
  SamplingParams sampling = {};
  int num_prompt_log_probs = -1;  // as Request
  bool echo = false;
  ToolUse tools = {};
};

// An unknown key and the known key that it resembles.
struct KeyHint {
  std::string key, similar;
};

// A line's request, or an error; then only `request.head` is set, as far as the line could be read.
struct ParsedLine {
  RequestDraft request = {};
  RequestError error = {};  // its code is empty if there is no error
  std::vector<KeyHint> hints = {};

  bool failed() const { return !error.code.empty(); }
};

// Whether another key may take the place of `key`, "prompt" or "id". It may not if it has another
// meaning.
bool may_stand_for(std::string_view key, std::string_view other);

// Parses JSON lines to requests. Any bytes give exactly one result; never throws. Error codes:
//
//   line_too_long     longer than kMaxLineBytes
//   invalid_utf8      not UTF-8
//   invalid_json      not JSON, nested deeper than 1,024 levels, a lone surrogate, or a number
//                     that fits neither 64 bits nor a double
//   not_an_object     JSON, but not an object
//   missing_prompt    neither prompt nor prompt_token_ids nor messages
//   ambiguous_prompt  more than one of them
//   unsupported       a known key whose value asks for what this version cannot do
//   unknown_key       an unknown key, if the rules are strict
//   invalid_value     a value of the wrong type or out of range
//
// Knows nothing of files, tokenizers or models.
class RequestParser {
 public:
  // `defaults` holds the settings that a line does not give. If the rules have another name for
  // "prompt" or "id", these are unknown keys.
  explicit RequestParser(SamplingParams defaults, LineRules rules = {});
  ~RequestParser();

  // Parses one line; `index` and `line` go into the head. REQUIRES: kLinePadding readable bytes
  // follow `text`.
  ParsedLine parse(std::string_view text, int64_t index, int64_t line);
  // The same for a line of the input, which may be a row with an error.
  ParsedLine parse(const InputLine& line);

  // The unknown keys that were ignored since the last call, with their counts. Keys after the first
  // hundred are counted together as "(other keys)".
  using UnknownKeys = std::map<std::string, int64_t, std::less<>>;
  UnknownKeys take_unknown_keys();
  // Adds the counts of later lines.
  static void add(UnknownKeys& keys, const UnknownKeys& later);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pagedinfer
